//go:build linux

// Package outbox keeps receipts on the disk until the stream has stored them.
package outbox

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/lineage-ebpf/lineage/cmd/lineage/statedir"
)

// MaxBytes bounds the files of the outbox.
const MaxBytes = 64 << 20

// ErrFull says that what is kept is older, and has not been stored yet.
var ErrFull = errors.New("the outbox is full")

// Item is a receipt on its way into the stream.
type Item struct {
	Head
	Body []byte
}

// Head is the first line of an item's file.
type Head struct {
	ID       string    `json:"id"`
	Ended    time.Time `json:"ended"`              // when what it is about was over
	Encoding string    `json:"encoding,omitempty"` // of the body
	Bytes    int       `json:"bytes"`              // of the body
}

// Box is the outbox: a file for each item. It may be used from any goroutine.
type Box struct {
	dir *statedir.Dir
	max int64

	mu    sync.Mutex
	files []file // the oldest first
	ids   map[string]bool
	bytes int64
	next  uint64        // number of the next file
	fresh chan struct{} // has something if a file came
}

// file is an item on the disk.
type file struct {
	number uint64
	id     string
	bytes  int64
}

func (f *file) name() string { return fmt.Sprintf("%016x.receipt", f.number) }

var fileName = regexp.MustCompile(`^[0-9a-f]{16}\.receipt$`)

// Open reads which items a directory has.
func Open(dir *statedir.Dir, maxBytes int64) (*Box, error) {
	b := &Box{dir: dir, max: maxBytes, ids: make(map[string]bool), fresh: make(chan struct{}, 1)}
	all, err := os.ReadDir(dir.Path(""))
	if err != nil {
		return nil, fmt.Errorf("open outbox: %w", err)
	}
	for _, e := range all { // sorted by name
		if !fileName.MatchString(e.Name()) {
			continue
		}
		number, err := strconv.ParseUint(strings.TrimSuffix(e.Name(), ".receipt"), 16, 64)
		if err != nil {
			return nil, fmt.Errorf("open outbox: %w", err)
		}
		x := file{number: number}
		item, err := b.read(&x)
		if err != nil {
			return nil, err
		}
		x.id, x.bytes = item.ID, int64(item.Bytes)
		b.add(x)
	}
	return b, nil
}

// Put keeps an item, which is on the disk when Put returns nil. One that is there already is kept as it was.
func (b *Box) Put(item *Item) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ids[item.ID] {
		return nil
	}
	x := file{b.next, item.ID, int64(len(item.Body))}
	if b.bytes+x.bytes > b.max {
		return ErrFull
	}
	item.Bytes = len(item.Body)
	err := b.dir.Replace(x.name(), func(w io.Writer) error {
		if err := json.NewEncoder(w).Encode(&item.Head); err != nil {
			return err
		}
		_, err := w.Write(item.Body)
		return err
	})
	if err != nil {
		return err
	}
	b.add(x)
	return nil
}

// add notes a file that is there, and says that it has come.
func (b *Box) add(x file) {
	b.files, b.bytes, b.next = append(b.files, x), b.bytes+x.bytes, x.number+1
	b.ids[x.id] = true
	select {
	case b.fresh <- struct{}{}:
	default:
	}
}

// Has reports whether an item is kept.
func (b *Box) Has(id string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.ids[id]
}

// First is the oldest item; nil of an empty outbox.
func (b *Box) First() (*Item, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.files) == 0 {
		return nil, nil
	}
	return b.read(&b.files[0])
}

// Remove removes the oldest item.
func (b *Box) Remove() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	x := &b.files[0]
	if err := os.Remove(b.dir.Path(x.name())); err != nil {
		return fmt.Errorf("remove receipt: %w", err)
	}
	b.bytes -= x.bytes
	delete(b.ids, x.id)
	b.files = b.files[1:]
	return nil
}

// Fresh receives when items have come.
func (b *Box) Fresh() <-chan struct{} { return b.fresh }

// Size is how many items are kept, and how many bytes they have.
func (b *Box) Size() (items int, bytes int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.files), b.bytes
}

func (b *Box) read(x *file) (*Item, error) {
	f, err := os.Open(b.dir.Path(x.name()))
	if err != nil {
		return nil, fmt.Errorf("read receipt: %w", err)
	}
	defer f.Close()
	item, r := new(Item), bufio.NewReader(io.LimitReader(f, b.max+4096))
	line, err := r.ReadSlice('\n')
	if err == nil {
		err = json.Unmarshal(line, &item.Head)
	}
	if err == nil {
		item.Body, err = io.ReadAll(r)
	}
	if err == nil && (item.ID == "" || len(item.Body) != item.Bytes) {
		err = errors.New("it is cut off")
	}
	if err != nil {
		return nil, fmt.Errorf("damaged receipt %s: %w; remove it", f.Name(), err)
	}
	return item, nil
}
