package main

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// Media types of the OCI image specification.
const (
	mediaIndex    = "application/vnd.oci.image.index.v1+json"
	mediaManifest = "application/vnd.oci.image.manifest.v1+json"
	mediaConfig   = "application/vnd.oci.image.config.v1+json"
	mediaLayer    = "application/vnd.oci.image.layer.v1.tar"
)

type object = map[string]any

// archive is an image as "docker save" writes it: an OCI layout, and the manifest.json
// that docker before version 25 reads.
type archive struct {
	tar *tar.Writer
	at  time.Time
}

// writeImage writes an image that contains only the program, as /lineage.
func writeImage(w io.Writer, version, epoch, binary string) error {
	at, err := seconds(epoch)
	if err != nil {
		return err
	}
	arch, err := architecture(binary)
	if err != nil {
		return err
	}
	layer, err := programLayer(binary, at)
	if err != nil {
		return err
	}
	a := &archive{tar.NewWriter(w), at}
	if err := a.image(version, arch, layer); err != nil {
		return fmt.Errorf("write the image: %w", err)
	}
	return nil
}

func (a *archive) image(version, arch string, layer []byte) error {
	if err := a.put("oci-layout", []byte(`{"imageLayoutVersion":"1.0.0"}`)); err != nil {
		return err
	}
	layerAt, err := a.blob(mediaLayer, layer)
	if err != nil {
		return err
	}
	configAt, err := a.document(mediaConfig, object{
		"architecture": arch, "os": "linux", "created": a.at.Format(time.RFC3339),
		"config": object{
			"Entrypoint": []string{"/lineage"}, "Cmd": []string{"--help"}, "Env": []string{"PATH=/"},
			"Labels": object{
				"org.opencontainers.image.title": "lineage", "org.opencontainers.image.version": version,
				"org.opencontainers.image.licenses": ownLicense,
			},
		},
		"rootfs":  object{"type": "layers", "diff_ids": []any{layerAt["digest"]}}, // not compressed: the same digest
		"history": []object{{"created": a.at.Format(time.RFC3339), "created_by": "lineage " + version}},
	})
	if err != nil {
		return err
	}
	manifestAt, err := a.document(mediaManifest, object{"schemaVersion": 2, "mediaType": mediaManifest, "config": configAt, "layers": []object{layerAt}})
	if err != nil {
		return err
	}
	name := "lineage:" + tag(version)
	manifestAt["platform"] = object{"architecture": arch, "os": "linux"}
	manifestAt["annotations"] = object{"io.containerd.image.name": "docker.io/library/" + name, "org.opencontainers.image.ref.name": tag(version)}
	if err := a.json("index.json", object{"schemaVersion": 2, "mediaType": mediaIndex, "manifests": []object{manifestAt}}); err != nil {
		return err
	}
	if err := a.json("manifest.json", []object{{"Config": blobPath(configAt), "RepoTags": []string{name}, "Layers": []string{blobPath(layerAt)}}}); err != nil {
		return err
	}
	return a.tar.Close()
}

// tag is a version in the form that an image tag allows.
func tag(version string) string { return strings.ReplaceAll(version, "+", "-") }

// programLayer is a file system with only the program.
func programLayer(binary string, at time.Time) ([]byte, error) {
	program, err := os.ReadFile(binary)
	if err != nil {
		return nil, fmt.Errorf("read the program: %w", err)
	}
	var b bytes.Buffer
	t := tar.NewWriter(&b)
	if err := put(t, "lineage", 0o755, at, program); err != nil {
		return nil, fmt.Errorf("write the layer: %w", err)
	}
	if err := t.Close(); err != nil {
		return nil, fmt.Errorf("write the layer: %w", err)
	}
	return b.Bytes(), nil
}

// architecture is the architecture of a program, as Go and OCI name it. One that needs
// a dynamic linker does not run in an empty image.
func architecture(binary string) (string, error) {
	f, err := elf.Open(binary)
	if err != nil {
		return "", fmt.Errorf("read the program: %w", err)
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			return "", fmt.Errorf("%s is not static: build it with CGO_ENABLED=0", binary)
		}
	}
	switch f.Machine {
	case elf.EM_X86_64:
		return "amd64", nil
	case elf.EM_AARCH64:
		return "arm64", nil
	}
	return "", fmt.Errorf("%s is for %v: want x86-64 or arm64", binary, f.Machine)
}

// blob adds content under its digest and returns a reference to it.
func (a *archive) blob(media string, content []byte) (object, error) {
	sum := sha256.Sum256(content)
	digest := hex.EncodeToString(sum[:])
	return object{"mediaType": media, "digest": "sha256:" + digest, "size": len(content)}, a.put("blobs/sha256/"+digest, content)
}

func (a *archive) document(media string, doc any) (object, error) {
	text, err := json.Marshal(doc)
	if err != nil {
		return nil, err
	}
	return a.blob(media, text)
}

func (a *archive) json(name string, doc any) error {
	text, err := json.Marshal(doc)
	if err != nil {
		return err
	}
	return a.put(name, text)
}

func (a *archive) put(name string, content []byte) error {
	return put(a.tar, name, 0o644, a.at, content)
}

func blobPath(at object) string {
	_, digest, _ := strings.Cut(at["digest"].(string), ":")
	return "blobs/sha256/" + digest
}

func put(t *tar.Writer, name string, mode int64, at time.Time, content []byte) error {
	if err := t.WriteHeader(&tar.Header{Name: name, Mode: mode, Size: int64(len(content)), ModTime: at, Format: tar.FormatUSTAR}); err != nil {
		return err
	}
	_, err := t.Write(content)
	return err
}
