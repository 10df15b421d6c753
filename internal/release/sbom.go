package main

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// ownLicense is the licence of the program: of its Go code, and of the BPF objects in it.
const ownLicense = "Apache-2.0 AND (GPL-2.0-only OR BSD-2-Clause)"

// writeSBOM lists what is in a program, as CycloneDX 1.5, without a serial number: the same program has the same list.
func writeSBOM(w io.Writer, version, epoch, binary string) error {
	at, program, err := built(epoch, binary)
	if err != nil {
		return err
	}
	all, err := modules(binary)
	if err != nil {
		return err
	}
	licensed := func(expression string) []object { return []object{{"expression": expression}} }
	name, components := filepath.Base(binary), []object{}
	for _, m := range all {
		version := m.Version
		if m.Path == "std" {
			version = strings.TrimPrefix(version, "go")
		}
		purl := "pkg:golang/" + m.Path + "@" + version
		components = append(components, object{"bom-ref": purl, "type": "library", "name": m.Path, "version": version,
			"licenses": licensed(m.id()), "purl": purl})
	}
	bom := object{"bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1, "components": components, "metadata": object{
		"timestamp": at.Format(time.RFC3339),
		"component": object{
			"bom-ref": name + "@" + version, "type": "application", "name": name, "version": version,
			"hashes": []object{{"alg": "SHA-256",
				"content": fmt.Sprintf("%x", sha256.Sum256(program))}}, "licenses": licensed(ownLicense),
		},
	}}
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	if err := enc.Encode(bom); err != nil {
		return fmt.Errorf("write the bill of materials: %w", err)
	}
	return nil
}

// built is a program, and SOURCE_DATE_EPOCH as a time.
func built(epoch, binary string) (at time.Time, program []byte, err error) {
	n, err := strconv.ParseInt(epoch, 10, 64)
	if err != nil {
		return at, nil, fmt.Errorf("invalid SOURCE_DATE_EPOCH %q: must be seconds since 1970", epoch)
	}
	if program, err = os.ReadFile(binary); err != nil {
		return at, nil, fmt.Errorf("read the program: %w", err)
	}
	return time.Unix(n, 0).UTC(), program, nil
}
