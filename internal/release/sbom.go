package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// The part of CycloneDX 1.5 that we use.
type (
	bom struct {
		Format     string      `json:"bomFormat"`
		Spec       string      `json:"specVersion"`
		Version    int         `json:"version"`
		Metadata   bomMetadata `json:"metadata"`
		Components []component `json:"components"`
	}
	bomMetadata struct {
		Timestamp string    `json:"timestamp"`
		Component component `json:"component"`
	}
	component struct {
		Ref      string          `json:"bom-ref"`
		Type     string          `json:"type"`
		Name     string          `json:"name"`
		Version  string          `json:"version"`
		Hashes   []hash          `json:"hashes,omitempty"`
		Licenses []licenseChoice `json:"licenses"`
		PURL     string          `json:"purl,omitempty"`
	}
	hash struct {
		Algorithm string `json:"alg"`
		Content   string `json:"content"`
	}
	licenseChoice struct {
		Expression string `json:"expression"`
	}
)

// own is the licence of the program: of its Go code, and of the BPF objects in it.
const own = "Apache-2.0 AND (GPL-2.0-only OR BSD-2-Clause)"

// writeSBOM lists what is in a program. It has neither a serial number nor the time of the
// build: the same program has the same list.
func writeSBOM(w io.Writer, version, epoch, binary string) error {
	at, err := seconds(epoch)
	if err != nil {
		return err
	}
	all, err := modules(binary)
	if err != nil {
		return err
	}
	program, err := os.ReadFile(binary)
	if err != nil {
		return fmt.Errorf("read the program: %w", err)
	}
	sum := sha256.Sum256(program)
	b := bom{Format: "CycloneDX", Spec: "1.5", Version: 1, Metadata: bomMetadata{
		Timestamp: at.Format(time.RFC3339),
		Component: component{
			Ref: filepath.Base(binary) + "@" + version, Type: "application", Name: filepath.Base(binary), Version: version,
			Hashes: []hash{{"SHA-256", hex.EncodeToString(sum[:])}}, Licenses: []licenseChoice{{own}},
		},
	}}
	for _, m := range all {
		version := m.Version
		if m.Path == "std" {
			version = strings.TrimPrefix(version, "go")
		}
		purl := "pkg:golang/" + m.Path + "@" + version
		b.Components = append(b.Components, component{Ref: purl, Type: "library", Name: m.Path, Version: version, Licenses: []licenseChoice{{m.id()}}, PURL: purl})
	}
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	if err := enc.Encode(b); err != nil {
		return fmt.Errorf("write the bill of materials: %w", err)
	}
	return nil
}

// seconds is SOURCE_DATE_EPOCH as a time.
func seconds(epoch string) (time.Time, error) {
	n, err := strconv.ParseInt(epoch, 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("invalid SOURCE_DATE_EPOCH %q: must be seconds since 1970", epoch)
	}
	return time.Unix(n, 0).UTC(), nil
}
