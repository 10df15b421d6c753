package ending

import (
	"strings"

	"github.com/spf13/pflag"

	"github.com/lineage-ebpf/lineage/api"
)

// Where selects containers: those of the flags --container and --pod. The zero value: any place.
type Where struct {
	Container string // its name, or its id: at least what docker prints of it
	Pod       string // its name, or NAMESPACE/NAME
}

// shortID is how many digits of a container's id name it.
const shortID = 12

// Flags adds the flags to a set; what says what they do.
func (w *Where) Flags(f *pflag.FlagSet, what string) {
	f.StringVar(&w.Container, "container", "", what+" in the container with this `NAME` or id")
	f.StringVar(&w.Pod, "pod", "", what+" in the pod with this `NAME`, or NAMESPACE/NAME")
}

// Given reports whether a flag was given.
func (w Where) Given() bool { return w != (Where{}) }

// Holds reports whether a container is selected; nil is only by the zero value.
func (w Where) Holds(c *api.Container) bool {
	switch {
	case !w.Given():
		return true
	case c == nil:
		return false
	case w.Container != "" && w.Container != c.Name && (len(w.Container) < shortID || !strings.HasPrefix(c.ID, w.Container)):
		return false
	}
	return w.Pod == "" || c.Pod != "" && (w.Pod == c.Pod || w.Pod == c.Namespace+"/"+c.Pod)
}
