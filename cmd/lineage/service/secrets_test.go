package service

import (
	"slices"
	"testing"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/apitest"
	"github.com/lineage-ebpf/lineage/internal/require"
)

func policied(items ...api.PolicyValue) *apitest.Client {
	return &apitest.Client{Has: apitest.Has{Policy: &api.Policy{Items: items}}}
}

// The expressions of the policy hide what is secret only here, besides what is always hidden.
func TestRedactor(t *testing.T) {
	hide, err := Redactor(t.Context(), policied(
		api.PolicyValue{Key: "redact.1", Value: "tea-[a-z]+"}, api.PolicyValue{Key: "other", Value: "make"}, api.PolicyValue{Key: "redact.2", Value: 7},
	))
	require.NoError(t, err)
	want := []string{"make", "--password=[redacted]", "[redacted]"}
	if got := hide([]string{"make", "--password=hunter2", "tea-earlgrey"}); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// Without the policy's expressions nothing may be shown.
func TestRedactorWithoutPolicy(t *testing.T) {
	for name, c := range map[string]*apitest.Client{
		"refused":           {Refuse: api.NewError(api.CodeDenied, "policy: denied", "")},
		"not an expression": policied(api.PolicyValue{Key: "redact.1", Value: "("}),
	} {
		if hide, err := Redactor(t.Context(), c); hide != nil || err == nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
