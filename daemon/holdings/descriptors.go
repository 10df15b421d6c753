//go:build linux

package holdings

import (
	"context"
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// descriptor is one open file of a process. It is valid while each runs.
type descriptor struct {
	link string // what it refers to, as procfs shows it
	infos,
	name string
	p *process
}

// info reads its fdinfo, for which the kernel takes no lock that the process can hold.
func (d *descriptor) info() (fdinfo, error) {
	f, err := d.p.file(d.infos + "/" + d.name)
	if err != nil {
		return fdinfo{}, err
	}
	defer f.Close()
	return parseInfo(f)
}

// descriptors calls each for every open file of p and counts them down from left. One
// that is closed meanwhile is not an error.
func (r *Reader) descriptors(ctx context.Context, p *process, left *int, each func(*descriptor) error) error {
	tables, many := r.tables(ctx, p)
	for _, t := range tables {
		d, err := openAt(p.dir, t+"/fd", unix.O_DIRECTORY)
		if err != nil {
			if t != "." && errors.Is(err, unix.ENOENT) {
				continue // the thread has exited
			}
			return err
		}
		err = p.descriptors(ctx, d, t+"/fdinfo", left, each)
		d.Close()
		if err != nil {
			return err
		}
	}
	return many
}

func (p *process) descriptors(ctx context.Context, d *os.File, infos string,
	left *int, each func(*descriptor) error) error {
	for {
		names, err := d.Readdirnames(chunk)
		links, failed := p.links(int(d.Fd()), names...)
		if failed != nil {
			return failed
		}
		for i, name := range names {
			if ctx.Err() != nil {
				return errTime
			}
			if *left--; *left < 0 {
				return errMany
			}
			if links[i] == "" {
				continue
			}
			if err := each(&descriptor{links[i], infos, name, p}); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
