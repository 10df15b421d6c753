//go:build linux

// Package orders has signed commands posted to the daemon, which alone decides about them, and brings the
// receipts into the outbox.
package orders

import (
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/cmd/lineage-link/outbox"
	"github.com/lineage-ebpf/lineage/cmd/lineage-link/receipts"
	"github.com/lineage-ebpf/lineage/cmd/lineage/statedir"
)

const (
	maxMessage  = 64 << 10         // bytes, as the daemon takes them
	maxAwaited  = 256              // commands that were accepted and are not over
	maxAsking   = 8                // of them that ask the daemon at the same time
	handTime    = 10 * time.Second // the daemon has for a command
	retryTime   = 2 * time.Second
	unknownTime = time.Minute   // after which a command that the daemon does not know was never accepted
	doneTime    = 2 * time.Hour // longer than the daemon remembers a command
)

// Carrier carries commands to the daemon. Its exported fields do not change after Open.
type Carrier struct {
	Dial func(context.Context) (api.Client, error)
	Dir  *statedir.Dir
	Box  *outbox.Box
	Host string // its name in subjects
	Log  zerolog.Logger

	Accepted, Refused atomic.Uint64 // commands, since the start

	mu      sync.Mutex
	awaited map[string]time.Time // commands whose receipts are to come, by id: when they came
	done    map[string]time.Time // commands whose receipts came, by id: when
	earlier []string             // commands that an earlier program handed over
	asking  chan struct{}
	all     sync.WaitGroup
	quiet   quiet
}

var noteName = regexp.MustCompile(`^([0-9a-f]{32})\.(await|done)$`)

// Open reads which receipts are to come, and which came.
func (c *Carrier) Open() error {
	c.awaited, c.done, c.asking, c.quiet.log = make(map[string]time.Time), make(map[string]time.Time), make(chan struct{}, maxAsking), c.Log
	all, err := os.ReadDir(c.Dir.Path(""))
	if err != nil {
		return err
	}
	for _, e := range all {
		switch name := noteName.FindStringSubmatch(e.Name()); {
		case name == nil:
		case name[2] == "await":
			c.awaited[name[1]], c.earlier = time.Now(), append(c.earlier, name[1])
		default:
			info, err := e.Info()
			if err != nil {
				return err
			}
			c.done[name[1]] = info.ModTime()
		}
	}
	c.clean()
	return nil
}

// clean removes the notes about receipts that came long ago. The caller holds the lock.
func (c *Carrier) clean() {
	for id, came := range c.done {
		if time.Since(came) > doneTime {
			c.remove(id + ".done")
			delete(c.done, id)
		}
	}
}

// Run waits for the receipts of commands that an earlier program handed over, and for all that have been
// asked for.
func (c *Carrier) Run(ctx context.Context) {
	c.mu.Lock()
	for _, id := range c.earlier { // the others are waited for since they came
		c.await(ctx, id)
	}
	c.mu.Unlock()
	<-ctx.Done()
	c.all.Wait()
}

// Take has a message posted to the daemon if it can be a command, or refused. That its receipt is to come is on
// the disk before: it must come also if this program is killed now.
func (c *Carrier) Take(ctx context.Context, message []byte, post func(ctx context.Context) (status int, err error), refuse func(error)) {
	id, err := read(message)
	fresh := false
	if err == nil {
		fresh, err = c.note(id)
	}
	if err != nil {
		c.Refused.Add(1)
		c.quiet.refused(err)
		refuse(err)
		return
	}
	status, err := post(ctx)
	if status == http.StatusAccepted {
		c.Accepted.Add(1)
	} else {
		c.Refused.Add(1)
		c.quiet.refused(cmp.Or(err, fmt.Errorf("the daemon answers %d", status)))
	}
	switch {
	case !fresh:
	case status != 0 && status != http.StatusAccepted:
		c.forget(id)
	default: // accepted, or not known
		c.mu.Lock()
		c.await(ctx, id)
		c.mu.Unlock()
	}
}

// read reads what can be a command. More than its id is not looked at: the daemon judges it.
func read(message []byte) (id string, err error) {
	bad := func(why string) (string, error) {
		return "", api.NewError(api.CodeBadRequest, "not a signed command: "+why, "")
	}
	if len(message) > maxMessage {
		return bad(fmt.Sprintf("more than %d KiB", maxMessage>>10))
	}
	var signed api.SignedCommand
	if json.Unmarshal(message, &signed) != nil {
		return bad("it is not JSON")
	}
	if len(signed.Command) > api.MaxCommand || len(signed.Signatures) > api.MaxSignatures {
		return bad(fmt.Sprintf("more than %d KiB, or than %d signatures", api.MaxCommand>>10, api.MaxSignatures))
	}
	for _, s := range signed.Signatures {
		if len(s) > api.MaxSignature {
			return bad(fmt.Sprintf("a signature of more than %d KiB", api.MaxSignature>>10))
		}
	}
	var named struct {
		ID string `json:"id"`
	}
	if json.Unmarshal([]byte(signed.Command), &named) != nil {
		return bad("its text is not JSON")
	}
	if b, err := hex.DecodeString(named.ID); err != nil || len(b) != 16 || named.ID != strings.ToLower(named.ID) {
		return bad("its id is not 32 hexadecimal digits")
	}
	return named.ID, nil
}

// note writes that the receipt of a command is to come. Not fresh: that was noted before.
func (c *Carrier) note(id string) (fresh bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, awaited := c.awaited[id]
	_, done := c.done[id]
	if awaited || done {
		return false, nil
	}
	if len(c.awaited) >= maxAwaited {
		return false, api.NewError(api.CodeTooMany, fmt.Sprintf("%d commands are not over yet", maxAwaited), "try again")
	}
	// After a crash of the host nothing is to come, so the disk need not have it.
	if err := os.WriteFile(c.Dir.Path(id+".await"), nil, 0o600); err != nil {
		return false, fmt.Errorf("the command cannot be noted: %w", err)
	}
	c.awaited[id] = time.Now()
	return true, nil
}

// forget removes the note.
func (c *Carrier) forget(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.awaited, id)
	c.remove(id + ".await")
}

// came notes that the receipt came: it must not come again if the command is repeated while the daemon does
// not answer.
func (c *Carrier) came(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.awaited, id)
	c.done[id] = time.Now()
	await, done := c.Dir.Path(id+".await"), c.Dir.Path(id+".done")
	if err := errors.Join(os.Chtimes(await, time.Time{}, c.done[id]), os.Rename(await, done)); err != nil {
		c.Log.Warn().Err(err).Msg("a note about a command is not changed")
	}
	c.clean()
}

func (c *Carrier) remove(note string) {
	if err := os.Remove(c.Dir.Path(note)); err != nil {
		c.Log.Warn().Err(err).Msg("a note about a command is not removed")
	}
}

// await brings the receipt of a command into the outbox when it is complete. The caller holds the lock.
func (c *Carrier) await(ctx context.Context, id string) {
	came := c.awaited[id]
	c.all.Go(func() {
		for ctx.Err() == nil {
			over, err := c.ask(ctx, id, came)
			if over {
				return
			}
			if err != nil && ctx.Err() == nil {
				c.quiet.waits(err)
			}
			receipts.Sleep(ctx, retryTime)
		}
	})
}

// ask asks once for a receipt.
func (c *Carrier) ask(ctx context.Context, id string, came time.Time) (over bool, err error) {
	select {
	case c.asking <- struct{}{}:
		defer func() { <-c.asking }()
	case <-ctx.Done():
		return false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, handTime)
	defer cancel()
	client, err := c.Dial(ctx)
	if err != nil {
		return false, err
	}
	defer client.Close()
	reply, err := client.CommandReceipt(ctx, id, handTime/2)
	if e, refused := errors.AsType[*api.Error](err); refused && e.Code == api.CodeNotFound {
		if over = time.Since(came) > unknownTime; over {
			c.forget(id)
			c.quiet.say(err, "no receipt of a command: the daemon did not accept it, or knows it no longer")
		}
		return over, nil
	}
	if err != nil {
		return false, err
	}
	var r api.CommandReceipt
	if err := json.Unmarshal([]byte(reply.Receipt), &r); err != nil {
		return false, fmt.Errorf("read the receipt of command %s: %w", id, err)
	}
	if !r.Complete {
		return false, nil
	}
	item, err := receipts.OfCommand(c.Host, id, reply)
	if err == nil {
		err = c.Box.Put(item)
	}
	if err != nil {
		return false, err
	}
	c.came(id)
	return true, nil
}
