package main

import (
	"bytes"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/lineage-ebpf/lineage/internal/require"
)

func TestIdentify(t *testing.T) {
	const redistribution = "Redistributions in binary form must reproduce the above\n   copyright notice, this list"
	for text, want := range map[string][]string{
		"":                                       nil,
		"All rights reserved.":                   nil,
		"GNU AFFERO GENERAL":                     nil,
		redistribution:                           {"BSD-2-Clause"},
		redistribution + ". Neither the name of": {"BSD-3-Clause"},
		redistribution + ". Neither the name of X. ALTERNATIVELY, this product may be\ndistributed under the terms of the GNU":           {dual},
		"Permission is hereby granted, free of charge, to any\nperson obtaining a copy. And: Apache License\n Version 2.0, January 2004": {"Apache-2.0", "MIT"},
	} {
		if got := identify(text); !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// A module without a licence, and one with a licence that is not known or not allowed,
// stop a release.
func TestReadRefuses(t *testing.T) {
	for name, tt := range map[string]struct{ file, text, want string }{
		"none":     {"README", "MIT", "no licence found"},
		"unknown":  {"LICENSE", "You may not use this.", "LICENSE is not known"},
		"a notice": {"NOTICE", "By me.", "no licence found"},
	} {
		t.Run(name, func(t *testing.T) {
			m := linked{Path: "x", Dir: t.TempDir()}
			require.NoError(t, os.WriteFile(m.Dir+"/"+tt.file, []byte(tt.text), 0o600))
			if err := m.read(); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want %s", err, tt.want)
			}
		})
	}
	m := linked{Path: "x", Dir: t.TempDir()}
	require.NoError(t, os.WriteFile(m.Dir+"/COPYING", []byte("Permission is hereby granted, free of charge, to any person obtaining a copy"), 0o600))
	defer func(was []string) { allowed = was }(allowed)
	allowed = []string{"Apache-2.0"}
	if err := m.read(); err == nil || err.Error() != "COPYING: MIT is not allowed" {
		t.Error(err)
	}
}

func TestUsage(t *testing.T) {
	for _, args := range [][]string{nil, {"notices"}, {"sbom", "1"}, {"image", "0.1.0", "yesterday", "/bin/true"}, {"sbom", "0.1.0", "", "/bin/true"}, {"notices", "/etc/passwd"}} {
		var out bytes.Buffer
		if err := run(&out, args); err == nil || out.Len() > 0 {
			t.Errorf("%q: %v, wrote %d bytes", args, err, out.Len())
		}
	}
}
