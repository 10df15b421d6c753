//go:build linux

package history

import (
	"fmt"
	"os"
)

// The test binary also runs as a writer that a test kills or starves.
func init() {
	if len(os.Args) > 2 && os.Args[1] == "lngtest-writer" {
		if err := writeOn(os.Args[2]); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if len(os.Args) > 3 && os.Args[1] == "lngtest-short" {
		if err := short(os.Args[2], os.Args[3]); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
}
