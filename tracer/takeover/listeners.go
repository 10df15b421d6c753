//go:build linux

package takeover

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"

	"github.com/cilium/ebpf"
	"github.com/lineage-ebpf/lineage/bpf"
)

// CopyListeners copies the sockets that members listen on to our map. These programs run before
// ours on the same tracepoint: a socket that is closed meanwhile is first removed there.
func (p *Programs) CopyListeners(ours *ebpf.Map) error {
	theirs, err := p.load(bpf.LineageMapListeners)
	if errors.Is(err, os.ErrNotExist) {
		return nil // from a version without listeners
	}
	if err != nil {
		return err
	}
	defer theirs.Close()
	layout, err := p.copier(theirs, "listener", "session", "process", "since", "family", "port", "address")
	if err != nil {
		return err
	}
	each := theirs.Iterate()
	var key, value []byte
	for each.Next(&key, &value) {
		var l bpf.LineageListener
		if err := Into(layout, value, &l); err != nil {
			return fmt.Errorf("carry the listening sockets: %w", err)
		}
		socket := binary.NativeEndian.Uint64(key)
		if err := ours.Update(socket, &l, ebpf.UpdateNoExist); err != nil {
			continue // ours already has it, or has no room
		}
		// No value, and no error: it was closed before ours had it.
		if still, err := theirs.LookupBytes(key); err == nil && still == nil {
			if err := ours.Delete(socket); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
				return fmt.Errorf("carry the listening sockets: %w", err)
			}
		}
	}
	if err := ended(each); err != nil {
		return fmt.Errorf("carry the listening sockets: %w", err)
	}
	return nil
}
