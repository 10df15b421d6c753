//go:build linux

package journal

import (
	"encoding/binary"
	"encoding/json"
	"strings"

	"github.com/lineage-ebpf/lineage/lineage"
)

// once packs what many events of a block share. It is written where it comes first, and then a number
// refers to it: 0 for none, then in their order.
func once[T any](b []byte, written map[*T]uint64, x *T, write func([]byte, *T) []byte) []byte {
	if x == nil {
		return append(b, 0)
	}
	n, again := written[x]
	if again {
		return binary.AppendUvarint(b, n)
	}
	n = uint64(len(written) + 1)
	written[x] = n
	return write(binary.AppendUvarint(b, n), x)
}

// shared is the inverse of once.
func shared[T any](d *decoder, read *[]*T, next func() *T) *T {
	n := d.uint(uint64(len(*read) + 1))
	if n == 0 {
		return nil
	}
	if n > uint64(len(*read)) {
		*read = append(*read, next())
	}
	return (*read)[n-1]
}

func appendText[T ~string | ~[]byte](b []byte, text T) []byte {
	return append(binary.AppendUvarint(b, uint64(len(text))), text...)
}

func appendContainer(b []byte, written map[*lineage.Container]uint64, c *lineage.Container) []byte {
	return once(b, written, c, func(b []byte, c *lineage.Container) []byte {
		text, err := json.Marshal(c)
		if err != nil {
			text = nil // a time that JSON does not have
		}
		return appendText(b, text)
	})
}

// container is the inverse of appendContainer.
func (d *decoder) container(read *[]*lineage.Container) *lineage.Container {
	return shared(d, read, func() *lineage.Container {
		c := new(lineage.Container)
		if text := d.text(); text != nil && json.Unmarshal(text, c) != nil {
			d.b, d.bad = nil, true
		}
		return c
	})
}

func appendImage(b []byte, written map[*lineage.Image]uint64, i *lineage.Image) []byte {
	return once(b, written, i, func(b []byte, i *lineage.Image) []byte {
		b = append(appendText(appendText(b, i.Comm), i.Exe), bits(i.Truncated))
		if len(i.Argv) == 0 {
			return append(b, 0)
		}
		return appendText(b, strings.Join(i.Argv, "\x00")+"\x00")
	})
}

// image is the inverse of appendImage.
func (d *decoder) image(read *[]*lineage.Image) *lineage.Image {
	return shared(d, read, func() *lineage.Image {
		i := &lineage.Image{Comm: string(d.text()), Exe: string(d.text()), Truncated: d.bytes(1)[0] != 0}
		if argv := string(d.text()); argv != "" {
			i.Argv = strings.Split(strings.TrimSuffix(argv, "\x00"), "\x00")
		}
		return i
	})
}
