//go:build linux

package httpapi

import (
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/history"
	"github.com/lineage-ebpf/lineage/daemon/stream"
	"github.com/lineage-ebpf/lineage/internal/require"
)

// docs/API.md names every route and no other, and every code as it is sent; what the values of
// documents mean is there or in docs/REFERENCE.md.
func TestAPIDocument(t *testing.T) {
	b, err := os.ReadFile("../../docs/API.md")
	require.NoError(t, err)
	text := string(b)
	values, err := os.ReadFile("../../docs/REFERENCE.md")
	require.NoError(t, err)
	var documented []string
	for _, m := range regexp.MustCompile("(?m)^\\| `((?:GET|POST) [^`]+)` \\|").FindAllStringSubmatch(text, -1) {
		documented = append(documented, m[1])
	}
	slices.Sort(documented)
	if want := slices.Sorted(maps.Keys((&Server{}).routes())); !slices.Equal(documented, want) {
		t.Errorf("documented are\n%s\nserved are\n%s", strings.Join(documented, "\n"), strings.Join(want, "\n"))
	}
	_, codes, _ := strings.Cut(text, "| code | status | exit |\n| --- | --- | --- |\n")
	codes, _, _ = strings.Cut(codes, "\n\n")
	var want []string
	for _, code := range []string{
		api.CodeBadRequest, api.CodePIDNamespace, api.CodeVersion, api.CodeDenied, api.CodeGuarded, api.CodeNotFound, api.CodeMethod, api.CodeAmbiguous,
		api.CodeIdentity, api.CodeChanged, api.CodeBusyName, api.CodeHalted, api.CodeLiveSessions, api.CodeTooLarge, api.CodeTooMany, api.CodeInternal,
		api.CodeStarting, api.CodeStopping, api.CodeUntracked, api.CodeUnsupported, api.CodeTimedOut,
	} {
		e := api.NewError(code, "", "")
		want = append(want, fmt.Sprintf("| `%s` | %d | %d |\n", code, e.Status(), e.Exit))
	}
	if got := strings.Join(want, ""); codes+"\n" != got {
		t.Errorf("documented are\n%s\nwant\n%s", codes, got)
	}
	for _, word := range []string{history.ReasonReboot, history.ReasonUntracked, stream.ReasonOver, stream.ReasonUntil, stream.ReasonStopping, "ring", "reader", "history"} {
		if !strings.Contains(text+string(values), "\n| `"+word+"` |") {
			t.Errorf("%s is not documented", word)
		}
	}
}
