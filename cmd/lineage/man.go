//go:build man

package main

import (
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra/doc"
)

// main of the build with the tag man writes the manual pages of the same
// commands into the folder that is its argument; of all but completion, whose
// work is done by an install. They carry the date
// SOURCE_DATE_EPOCH, for who builds them twice.
func main() {
	if err := writePages(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "man:", err)
		os.Exit(1)
	}
}

func writePages(args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("want one argument, the folder")
	}
	date := time.Now()
	if s, ok := os.LookupEnv("SOURCE_DATE_EPOCH"); ok {
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil {
			return fmt.Errorf("read SOURCE_DATE_EPOCH: %w", err)
		}
		date = time.Unix(n, 0)
	}
	date = date.UTC()
	if err := os.MkdirAll(args[0], 0o755); err != nil {
		return fmt.Errorf("make the folder: %w", err)
	}
	a := &app{stdout: os.Stdout, stderr: os.Stderr, env: func(string) string { return "" }, host: thisHost()}
	root := a.root()
	root.DisableAutoGenTag = true
	header := &doc.GenManHeader{Section: "1", Date: &date, Source: "lineage " + version, Manual: "lineage"}
	if err := doc.GenManTree(root, header, args[0]); err != nil {
		return fmt.Errorf("write the pages: %w", err)
	}
	return nil
}
