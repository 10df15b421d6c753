package tui

import (
	"flag"
	"os"
	"testing"

	"charm.land/bubbles/v2/key"
)

const keysFile = "../docs/KEYS.md"

// docs/KEYS.md is what the key map says. With -update it is written again.
func TestKeysDocument(t *testing.T) {
	want := KeysDocument()
	if flag.Lookup("update").Value.String() == "true" {
		if err := os.WriteFile(keysFile, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(keysFile)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("%s is not what the keys are; make docs writes it again", keysFile)
	}
}

// A key does one thing, and every key is told of.
func TestKeys(t *testing.T) {
	k := NewKeyMap()
	seen := map[string]string{}
	for _, g := range k.Groups() {
		for _, b := range g.Keys {
			if b.Help().Key == "" || b.Help().Desc == "" {
				t.Errorf("%v is not told of", b.Keys())
			}
			for _, name := range b.Keys() {
				if other, taken := seen[name]; taken {
					t.Errorf("%s is for %q and for %q", name, other, b.Help().Desc)
				}
				seen[name] = b.Help().Desc
			}
		}
	}
	for _, b := range []key.Binding{k.Up, k.Down, k.Home, k.End, k.PageUp, k.PageDown, k.Left, k.Right, k.Details, k.PID, k.Mark, k.MarkAll,
		k.Unmark, k.Search, k.Next, k.Prev, k.Filter, k.Root, k.Back, k.FollowRow, k.FollowNewest, k.Pause, k.Flat, k.Sort, k.Lock, k.Timeline,
		k.Orphans, k.EndSession, k.Kill, k.Help, k.Escape, k.Quit, k.Suspend} {
		if seen[b.Keys()[0]] != b.Help().Desc {
			t.Errorf("%s is in no group", b.Help().Key)
		}
	}
}
