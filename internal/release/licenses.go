package main

import (
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// linked is a module in a program, with its licences.
type linked struct {
	Path, Version, Dir string
	licenses           []license
}

type license struct {
	file string
	ids  []string // of SPDX
	text string
}

type fingerprint struct {
	id, phrase string
	in         []string // licences whose text also has this phrase
}

// dual is the licence of libcap.
const dual = "BSD-3-Clause OR GPL-2.0-only"

// fingerprints are phrases that only a text of that licence has, with blanks normalised. Those that other licences also
// contain come after them.
var fingerprints = []fingerprint{
	{"Apache-2.0", "Apache License Version 2.0, January 2004", nil},
	{"Apache-2.0", "covered by two different licenses: MIT and Apache", nil},
	{dual, "ALTERNATIVELY, this product may be distributed under the terms of the GNU", nil},
	{"MIT", "Permission is hereby granted, free of charge, to any person obtaining a copy", nil},
	{"BSD-3-Clause", "Neither the name", []string{dual}},
	{"BSD-3-Clause", "may not be used to endorse or promote products derived from this software",
		[]string{dual}},
	{"BSD-2-Clause", "Redistributions in binary form must reproduce the above copyright notice",
		[]string{"BSD-3-Clause", dual}},
	{"blessing", "has been dedicated to the public domain by the authors", nil},
}

// allowed are the licences that may be linked into a program under Apache-2.0. All
// require that their text is included, which the packages do.
var allowed = []string{"Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", dual, "MIT", "blessing"}

// texts are the files of a module that say how it may be used. Those without a licence,
// such as NOTICE, are only part of the notices.
var texts = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice|sqlite-license)([.-].*)?$`)

// notLinked are licences of what a module has apart from its code: a logo.
var notLinked = regexp.MustCompile(`(?i)logo`)

// modules are those that programs were linked from. It fails if one has no licence that is known and allowed.
func modules(binaries ...string) ([]linked, error) {
	var all []linked
	var toolchain string
	for _, binary := range binaries {
		info, err := buildinfo.ReadFile(binary)
		if err != nil {
			return nil, fmt.Errorf("read the modules of %s: %w", binary, err)
		}
		toolchain = info.GoVersion
		for _, m := range info.Deps {
			if m.Path == info.Main.Path+"/api" {
				continue // of this repository
			}
			if m.Replace != nil {
				return nil, fmt.Errorf("%s is replaced: not what its version says", m.Path)
			}
			if !slices.ContainsFunc(all, func(x linked) bool { return x.Path == m.Path }) {
				all = append(all, linked{Path: m.Path, Version: m.Version})
			}
		}
	}
	slices.SortFunc(all, func(a, b linked) int { return strings.Compare(a.Path, b.Path) })
	for i := range all {
		if err := all[i].locate(); err != nil {
			return nil, err
		}
	}
	// The standard library is in the programs, too.
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return nil, fmt.Errorf("find the standard library: %w", err)
	}
	all = append([]linked{{Path: "std", Version: toolchain, Dir: strings.TrimSpace(string(root))}}, all...)
	for i := range all {
		if err := all[i].read(); err != nil {
			return nil, fmt.Errorf("%s %s: %w", all[i].Path, all[i].Version, err)
		}
	}
	return all, nil
}

// locate finds the module in the module cache.
func (m *linked) locate() error {
	cmd := exec.Command("go", "mod", "download", "-json", m.Path+"@"+m.Version)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err == nil {
		err = json.Unmarshal(out, m)
	}
	if err != nil {
		return fmt.Errorf("find the module: %w", err)
	}
	return nil
}

// read reads the licences of a module.
func (m *linked) read() error {
	entries, err := os.ReadDir(m.Dir)
	if err != nil {
		return fmt.Errorf("read the module: %w", err)
	}
	for _, e := range entries {
		if !e.Type().IsRegular() || !texts.MatchString(e.Name()) || notLinked.MatchString(e.Name()) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(m.Dir, e.Name()))
		if err != nil {
			return fmt.Errorf("read a licence: %w", err)
		}
		l := license{e.Name(), identify(string(text)), string(text)}
		if len(l.ids) == 0 && !strings.HasPrefix(strings.ToUpper(e.Name()), "NOTICE") {
			return fmt.Errorf("%s is not known: add it to fingerprints", e.Name())
		}
		for _, id := range l.ids {
			if !slices.Contains(allowed, id) {
				return fmt.Errorf("%s: %s is not allowed", e.Name(), id)
			}
		}
		m.licenses = append(m.licenses, l)
	}
	if m.id() == "" {
		return errors.New("no licence found")
	}
	return nil
}

// id joins the licences of a module to an SPDX expression.
func (m *linked) id() string {
	var ids []string
	for _, l := range m.licenses {
		ids = append(ids, l.ids...)
	}
	slices.Sort(ids)
	ids = slices.Compact(ids)
	if len(ids) > 1 {
		for i, id := range ids {
			if strings.Contains(id, " ") {
				ids[i] = "(" + id + ")"
			}
		}
	}
	return strings.Join(ids, " AND ")
}

// identify gives the SPDX ids of the known licences in a text.
func identify(text string) (ids []string) {
	text = strings.Join(strings.Fields(text), " ")
	for _, f := range fingerprints {
		found := strings.Contains(text, f.phrase)
		if found && !slices.Contains(ids, f.id) && !f.within(ids) {
			ids = append(ids, f.id)
		}
	}
	return ids
}

// within reports whether a licence that was found explains the phrase.
func (f *fingerprint) within(ids []string) bool {
	return slices.ContainsFunc(f.in, func(id string) bool { return slices.Contains(ids, id) })
}

func writeNotices(w io.Writer, binaries []string) error {
	all, err := modules(binaries...)
	if err != nil {
		return err
	}
	fmt.Fprintln(w, "lineage contains the following modules, each under the licence below its name.")
	for _, m := range all {
		for _, l := range m.licenses {
			fmt.Fprintf(w, "\n%s\n%s %s: %s\n\n%s\n", strings.Repeat("-", 80), m.Path,
				m.Version, l.file, strings.TrimSpace(l.text))
		}
	}
	return nil
}
