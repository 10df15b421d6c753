package main

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
)

type object = map[string]any

// writeImage writes an image of the program alone, as "docker save" did before version 25: docker, podman and
// containerd load it.
func writeImage(w io.Writer, version, epoch, binary string) error {
	at, program, err := built(epoch, binary)
	if err != nil {
		return err
	}
	arch, err := architecture(program)
	if err != nil {
		return fmt.Errorf("%s: %w", binary, err)
	}
	var layer bytes.Buffer
	if err := writeTar(&layer, at, file{"lineage", 0o755, program}); err != nil {
		return fmt.Errorf("write the layer: %w", err)
	}
	created := at.Format(time.RFC3339)
	config, err := json.Marshal(object{
		"architecture": arch, "os": "linux", "created": created,
		"config": object{
			"Entrypoint": []string{"/lineage"}, "Cmd": []string{"--help"}, "Env": []string{"PATH=/"},
			"Labels": object{
				"org.opencontainers.image.title": "lineage", "org.opencontainers.image.version": version,
				"org.opencontainers.image.licenses": ownLicense,
			},
		},
		"rootfs": object{"type": "layers",
			"diff_ids": []string{fmt.Sprintf("sha256:%x", sha256.Sum256(layer.Bytes()))}},
		"history": []object{{"created": created, "created_by": "lineage " + version}},
	})
	if err != nil {
		return err
	}
	named := fmt.Sprintf("%x.json", sha256.Sum256(config))
	tag := "lineage:" + strings.ReplaceAll(version, "+", "-") // a tag has no +
	manifest, err := json.Marshal([]object{{"Config": named, "RepoTags": []string{tag},
		"Layers": []string{"layer.tar"}}})
	if err == nil {
		err = writeTar(w, at, file{"layer.tar", 0o644, layer.Bytes()}, file{named, 0o644, config},
			file{"manifest.json", 0o644, manifest})
	}
	if err != nil {
		return fmt.Errorf("write the image: %w", err)
	}
	return nil
}

// architecture is the architecture of a program, as Go and OCI name it. One that needs
// a dynamic linker does not run in an empty image.
func architecture(program []byte) (string, error) {
	info, err := buildinfo.Read(bytes.NewReader(program))
	if err != nil {
		return "", err
	}
	built := map[string]string{}
	for _, s := range info.Settings {
		built[s.Key] = s.Value
	}
	if built["CGO_ENABLED"] != "0" {
		return "", errors.New("not static: build it with CGO_ENABLED=0")
	}
	return built["GOARCH"], nil
}

type file struct {
	name    string
	mode    int64
	content []byte
}

func writeTar(w io.Writer, at time.Time, files ...file) error {
	t := tar.NewWriter(w)
	for _, f := range files {
		if err := t.WriteHeader(&tar.Header{Name: f.name, Mode: f.mode, Size: int64(len(f.content)), ModTime: at,
			Format: tar.FormatUSTAR}); err != nil {
			return err
		}
		if _, err := t.Write(f.content); err != nil {
			return err
		}
	}
	return t.Close()
}
