//go:build linux

package journal

import (
	"encoding/binary"
	"encoding/json"

	"github.com/lineage-ebpf/lineage/lineage"
)

// appendContainer packs a container. It is written where it comes first in a block, as JSON, and then a number refers to
// it: 0 for none, then in their order.
func appendContainer(b []byte, written map[*lineage.Container]uint64, c *lineage.Container) []byte {
	if c == nil {
		return append(b, 0)
	}
	n, again := written[c]
	if again {
		return binary.AppendUvarint(b, n)
	}
	n = uint64(len(written) + 1)
	written[c] = n
	text, err := json.Marshal(c)
	if err != nil {
		text = nil // a time that JSON does not have
	}
	b = binary.AppendUvarint(b, n)
	return append(binary.AppendUvarint(b, uint64(len(text))), text...)
}

// container is the inverse of appendContainer.
func (d *decoder) container(read *[]*lineage.Container) *lineage.Container {
	n := d.uint(uint64(len(*read) + 1))
	if n == 0 {
		return nil
	}
	if n > uint64(len(*read)) {
		c := new(lineage.Container)
		if text := d.text(); text != nil && json.Unmarshal(text, c) != nil {
			d.b, d.bad = nil, true
			return nil
		}
		*read = append(*read, c)
	}
	return (*read)[n-1]
}
