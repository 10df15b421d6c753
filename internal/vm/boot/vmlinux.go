//go:build linux

package boot

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
)

// Unpack writes the ELF kernel that is inside the bzImage at path to a file.
// QEMU starts an ELF kernel directly (PVH), so that the guest does not spend
// seconds of emulated time on its own decompression. The decompressors are
// Debian's xz-utils, lz4, zstd and gzip.
func Unpack(path, to string) error {
	image, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	payload, err := payload(image)
	if err != nil {
		return fmt.Errorf("unpack %s: %w", path, err)
	}
	elf, err := decompress(payload)
	if err != nil {
		return fmt.Errorf("unpack %s: %w", path, err)
	}
	// Another run may unpack the same kernel at the same time.
	tmp := fmt.Sprintf("%s.%d", to, os.Getpid())
	if err := os.WriteFile(tmp, elf, 0o644); err != nil {
		return err
	}
	return os.Rename(tmp, to)
}

// payload is the compressed kernel with its size appended. The boot header has its
// position: Documentation/arch/x86/boot.rst.
func payload(image []byte) ([]byte, error) {
	const (
		setupSects    = 0x1f1
		magic         = 0x202
		payloadOffset = 0x248
		payloadLength = 0x24c
		headerEnd     = 0x250
	)
	if len(image) < headerEnd || string(image[magic:magic+4]) != "HdrS" {
		return nil, errors.New("no bzImage")
	}
	at := (uint64(image[setupSects])+1)*512 + uint64(binary.LittleEndian.Uint32(image[payloadOffset:]))
	end := at + uint64(binary.LittleEndian.Uint32(image[payloadLength:]))
	if end > uint64(len(image)) || end-at < 8 {
		return nil, errors.New("truncated bzImage")
	}
	return image[at:end], nil
}

var compressions = []struct{ magic, tool string }{
	{"\xfd7zXZ\x00", "xz"},
	{"\x28\xb5\x2f\xfd", "zstd"},
	{"\x02\x21\x4c\x18", "lz4"},
	{"\x1f\x8b\x08", "gzip"},
}

func decompress(payload []byte) ([]byte, error) {
	for _, c := range compressions {
		if !bytes.HasPrefix(payload, []byte(c.magic)) {
			continue
		}
		cmd := exec.Command(c.tool, "-dcq")
		cmd.Stdin = bytes.NewReader(payload)
		// The tools may report an error about the size at the end; the size decides, not they.
		elf, err := cmd.Output()
		if errors.Is(err, exec.ErrNotFound) {
			return nil, err
		}
		want := uint64(binary.LittleEndian.Uint32(payload[len(payload)-4:]))
		if uint64(len(elf)) < want || !bytes.HasPrefix(elf, []byte("\x7fELF")) {
			return nil, fmt.Errorf("%s gave %d bytes of a kernel of %d: %w", c.tool, len(elf), want, err)
		}
		return elf[:want], nil
	}
	return nil, fmt.Errorf("unknown compression %x", payload[:4])
}
