//go:build linux

package signed

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hiddeco/sshsig"
	"golang.org/x/crypto/ssh"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/daemon/access"
	"github.com/lineage-ebpf/lineage/enforcer/policy"
)

type checker struct {
	o      Options
	memory *memory
	began  time.Time // by the wall clock
	since  uint64    // boottime
}

func newChecker(o Options) *checker {
	c := &checker{o: o, since: o.Clock.Boottime()}
	c.began = c.at(o.Clock.Zero(), 0)
	c.memory = openMemory(o.Memory, c.began, o.BootID, o.Clock.Boottime)
	return c
}

// at is the time now for a clock that had another one at a boottime.
func (c *checker) at(then time.Time, boottime uint64) time.Time {
	return then.Add(time.Duration(c.o.Clock.Boottime() - boottime)).UTC()
}

// now is the time. It never goes back while the daemon runs, whatever is done to the wall clock.
func (c *checker) now() time.Time {
	counted := c.at(c.began, c.since)
	if wall := c.at(c.o.Clock.Zero(), 0); wall.After(counted) {
		return wall
	}
	return counted
}

// order is a command that is genuine, for this host, and allowed by the policy as far as its verb goes.
type order struct {
	api.Command
	Operators []string // that signed it, sorted

	host   string  // the word by which it named this host
	grants []grant // of those who may do what it orders, to some sessions
}

// check returns the order of a signed command, or why it is refused.
func (c *checker) check(s *api.SignedCommand) (*order, error) {
	if len(s.Signatures) > api.MaxSignatures {
		return nil, fmt.Errorf("it has more than %d signatures", api.MaxSignatures)
	}
	cmd, err := api.ParseCommand(s.Command)
	if err != nil {
		return nil, err
	}
	o, now := &order{Command: *cmd}, c.now()
	if why := c.memory.unfit(cmd, now); why != "" {
		return o, errors.New(why)
	}
	if o.host, err = c.addressed(cmd); err != nil {
		return o, err
	}
	p := c.o.Policy()
	if len(p.Operators) == 0 {
		return o, errors.New("the policy names no operator")
	}
	operators, err := readOperators(filepath.Join(filepath.Dir(p.File()), "operators"))
	if err != nil {
		return o, fmt.Errorf("the keys of the operators are unknown: %w", err)
	}
	var entries []*policy.Operator
	for i, armored := range s.Signatures {
		signer, err := verify(s.Command, armored, operators, now)
		if err != nil {
			return o, fmt.Errorf("signature %d: %w", i+1, err)
		}
		entry := entryOf(p, signer.names)
		if entry == nil {
			return o, fmt.Errorf("signature %d: the policy has no operator %s", i+1,
				strings.Join(signer.names, " or "))
		}
		if slices.Contains(o.Operators, entry.Name) {
			return o, fmt.Errorf("signature %d: %s signed twice", i+1, entry.Name)
		}
		o.Operators, entries = append(o.Operators, entry.Name), append(entries, entry)
	}
	slices.Sort(o.Operators)
	return o, o.permit(entries)
}

// addressed is the word by which the command names this host.
func (c *checker) addressed(cmd *api.Command) (string, error) {
	keys := hostKeys(c.o.HostKeys)
	for _, k := range keys {
		if slices.Contains(cmd.Hosts, k.mark) {
			return k.mark, nil
		}
	}
	if len(keys) == 0 { // then clients know it by its name only
		name, err := os.Hostname()
		if err != nil {
			return "", fmt.Errorf("the host's name is unknown: %w", err)
		}
		if slices.Contains(cmd.Hosts, name) {
			return name, nil
		}
	}
	return "", errors.New("it is for other hosts")
}

// verify returns the line of the operators file whose key made a signature.
func verify(text, armored string, operators []signer, now time.Time) (*signer, error) {
	if len(armored) > api.MaxSignature {
		return nil, fmt.Errorf("it is larger than %d KiB", api.MaxSignature>>10)
	}
	s, err := sshsig.Unarmor([]byte(armored))
	if err != nil {
		return nil, errors.New("it is not an SSH signature")
	}
	mark := ssh.FingerprintSHA256(s.PublicKey)
	why := "its key " + mark + " is of no operator"
	for i := range operators {
		o := &operators[i]
		if o.mark != mark {
			continue
		}
		if why = o.unfit(api.CommandNamespace, now); why != "" {
			continue
		}
		return o, proven(text, s, o.key)
	}
	return nil, errors.New(why)
}

// userPresent is the flag of a security key's signature that its button was touched.
const userPresent = 1

// proven returns an error unless the key made the signature.
func proven(text string, s *sshsig.Signature, key ssh.PublicKey) error {
	switch s.Signature.Format {
	case ssh.KeyAlgoRSA: // with SHA-1
		return fmt.Errorf("its algorithm %s is not accepted", s.Signature.Format)
	case ssh.KeyAlgoSKED25519, ssh.KeyAlgoSKECDSA256:
		if len(s.Signature.Rest) == 0 || s.Signature.Rest[0]&userPresent == 0 {
			return errors.New("its security key was not touched")
		}
	}
	if err := sshsig.Verify(strings.NewReader(text), s, key, s.HashAlgorithm,
		api.CommandNamespace); err != nil {
		return fmt.Errorf("it is not of this command: %w", err)
	}
	return nil
}

// entryOf is the policy's entry of the first of the names that has one.
func entryOf(p *policy.Policy, names []string) *policy.Operator {
	for _, name := range names {
		for i := range p.Operators {
			if p.Operators[i].Name == name {
				return &p.Operators[i]
			}
		}
	}
	return nil
}

type grant struct {
	entry *policy.Operator
	uids  []uint32 // of the users whose sessions it covers
}

// permit returns an error if no session could be allowed: by the verb, or by the number of signatures.
func (o *order) permit(entries []*policy.Operator) error {
	why := "it has no signature"
	for _, e := range entries {
		switch {
		case !slices.Contains(e.Verbs, o.Verb):
			why = fmt.Sprintf("%s may not %s", e.Name, o.Verb)
		case o.Verb == api.VerbHalt && len(e.Users)+len(e.Sessions) > 0:
			why = fmt.Sprintf("%s may not halt: that concerns every session, and the policy names users or sessions", e.Name)
		default:
			o.grants = append(o.grants, grant{e, uidsOf(e.Users)})
		}
	}
	for _, g := range o.grants {
		if len(o.grants) >= g.entry.Signatures {
			return nil
		}
		why = fmt.Sprintf("%s needs %d signatures of operators who may %s, and it has %d",
			g.entry.Name, g.entry.Signatures, o.Verb, len(o.grants))
	}
	return errors.New(why)
}

// uidsOf are the uids of users, which are names or numbers. A name that the host does not have is of no session.
func uidsOf(users []string) (all []uint32) {
	for _, word := range users {
		uid, err := strconv.ParseUint(word, 10, 32)
		if err != nil {
			u, err := user.Lookup(word)
			if err != nil {
				continue
			}
			uid, _ = strconv.ParseUint(u.Uid, 10, 32) // as the host has it
		}
		all = append(all, uint32(uid))
	}
	return all
}

// may decides whether the order's signers may end a session, and so read it. It runs in the registry's
// goroutine, and reads no file.
func (o *order) may(v access.Verb, s access.Scope) access.Decision {
	if v != access.End && v != access.Read {
		return access.Decision{Why: fmt.Sprintf("the command does not %v", v)}
	}
	covering, least := 0, api.MaxSignatures+1 // of the grants that cover it: the number, and the fewest signatures that one needs
	for _, g := range o.grants {
		if (len(g.entry.Users) == 0 || slices.Contains(g.uids, s.UID)) && g.entry.Names(s.Name) {
			covering, least = covering+1, min(least, g.entry.Signatures)
		}
	}
	if covering >= least {
		return access.Decision{Allow: true}
	}
	return access.Decision{Why: fmt.Sprintf("the policy does not let %s end sessions of this user and name",
		strings.Join(o.Operators, " and "))}
}
