package secrets

import (
	"context"
	"slices"
	"testing"

	"github.com/lineage-ebpf/lineage/api"
)

// policied is a daemon with a policy.
type policied struct {
	api.Client
	items []api.PolicyValue
	err   error
}

func (p policied) Policy(context.Context) (*api.Policy, error) {
	return &api.Policy{Items: p.items}, p.err
}

// The expressions of the policy hide what is secret only here, besides what is always hidden.
func TestRedactor(t *testing.T) {
	hide, err := Redactor(t.Context(), policied{items: []api.PolicyValue{
		{Key: "redact.1", Value: "tea-[a-z]+"}, {Key: "other", Value: "make"}, {Key: "redact.2", Value: 7},
	}})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"make", "--password=[redacted]", "[redacted]"}
	if got := hide([]string{"make", "--password=hunter2", "tea-earlgrey"}); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// Without the policy's expressions nothing may be shown.
func TestRedactorWithoutPolicy(t *testing.T) {
	for name, c := range map[string]policied{
		"refused":           {err: api.NewError(api.CodeDenied, "policy: denied", "")},
		"not an expression": {items: []api.PolicyValue{{Key: "redact.1", Value: "("}}},
	} {
		if hide, err := Redactor(t.Context(), c); hide != nil || err == nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
