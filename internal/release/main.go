// release writes what a release has besides the program: the licences of everything that
// is linked into it, a bill of materials, and a container image. Each is made only from
// the built program and the module cache, and the same input gives the same bytes.
package main

import (
	"fmt"
	"io"
	"os"
)

const usage = `usage:
  release notices BINARY...               the linked modules, each with the text of its licences
  release sbom VERSION EPOCH BINARY       a bill of materials, CycloneDX 1.5
  release image VERSION EPOCH BINARY      a container image, to load into docker or podman
`

func main() {
	if err := run(os.Stdout, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run(w io.Writer, args []string) error {
	verb := ""
	if len(args) > 0 {
		verb, args = args[0], args[1:]
	}
	switch {
	case verb == "notices" && len(args) > 0:
		return writeNotices(w, args)
	case verb == "sbom" && len(args) == 3:
		return writeSBOM(w, args[0], args[1], args[2])
	case verb == "image" && len(args) == 3:
		return writeImage(w, args[0], args[1], args[2])
	}
	return fmt.Errorf("what is asked for is not clear\n%s", usage)
}
