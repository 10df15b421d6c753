package keys

import (
	"flag"
	"os"
	"testing"

	"charm.land/bubbles/v2/key"
)

const document = "../../docs/KEYS.md"

var update = flag.Bool("update", false, "write "+document)

// docs/KEYS.md matches the key map. With -update it is rewritten.
func TestDocument(t *testing.T) {
	want := Document()
	if *update {
		if err := os.WriteFile(document, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("%s is not what the keys are; make docs writes it again", document)
	}
}

// In each place a key does one thing, and every key is documented.
func TestKeys(t *testing.T) {
	m := New()
	documented := map[string]bool{}
	for _, g := range m.Groups() {
		for _, b := range g.Keys {
			documented[b.Help().Key+b.Help().Desc] = true
		}
	}
	for _, place := range [][]key.Binding{bindings(m.Tree), bindings(m.Timeline), bindings(m.Dialog)} {
		seen := map[string]string{}
		for _, b := range place {
			if b.Help().Key == "" || b.Help().Desc == "" || !documented[b.Help().Key+b.Help().Desc] {
				t.Errorf("%v is not documented", b.Keys())
			}
			for _, name := range b.Keys() {
				if other, taken := seen[name]; taken {
					t.Errorf("%s is for %q and for %q", name, other, b.Help().Desc)
				}
				seen[name] = b.Help().Desc
			}
		}
	}
}
