package ending

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/hiddeco/sshsig"
	"github.com/spf13/pflag"
	"golang.org/x/crypto/ssh"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/api/display"
	"github.com/lineage-ebpf/lineage/cmd/lineage/cli"
	"github.com/lineage-ebpf/lineage/cmd/lineage/hosts"
	"github.com/lineage-ebpf/lineage/cmd/lineage/text"
)

type SigningFlags struct {
	Keys   []string // of ssh-keygen -Y sign
	Reason string
	Save   string // the file for other signers; empty: it is sent
}

func (f *SigningFlags) Add(set *pflag.FlagSet) {
	f.AddSigning(set)
	set.StringVar(&f.Reason, "reason", "", "with --sign: why, for the audit logs; a `TEXT`")
}

// AddSigning adds those that a command that exists takes, too.
func (f *SigningFlags) AddSigning(set *pflag.FlagSet) {
	set.StringArrayVar(&f.Keys, "sign", nil,
		"sign with this SSH `KEY`, a file; of a key that an agent has, its .pub file; repeatable")
	set.StringVar(&f.Save, "save", "", "write the signed command to `FILE` and send nothing; see --from")
}

func (f *SigningFlags) Given() bool { return len(f.Keys) > 0 || f.Reason != "" || f.Save != "" }

type CommandSender struct {
	SigningFlags
	Console *cli.Console
	Local   func(context.Context) (api.Client, error) // the daemon of this host
	Dial    hosts.Dialer
	Hosts   hosts.List // empty: this host
	Yes     bool       // do not ask
	Timeout time.Duration
	Format  string

	MaxHosts int // on which sessions may end
}

// Order makes a command for the hosts, signs it, and sends it unless it is saved.
func (s *CommandSender) Order(ctx context.Context, c api.Command) error {
	switch {
	case len(s.Keys) == 0:
		return cli.Usage("%s: --reason and --save belong to --sign", c.Verb)
	case strings.TrimSpace(s.Reason) == "":
		return cli.Usage("%s: a signed command needs --reason", c.Verb)
	}
	marks, err := s.marks(ctx)
	if err != nil {
		return err
	}
	for _, host := range marks {
		c.Hosts = append(c.Hosts, host...)
	}
	now := s.Console.Now().UTC().Truncate(time.Second)
	c.V, c.ID, c.Reason, c.Issued, c.NotAfter = 1, api.NewCommandID(), s.Reason, now, now.Add(api.MaxValidity)
	if _, err := api.ParseCommand(c.Text()); err != nil {
		return cli.Usage("%s: %w", c.Verb, err)
	}
	return s.deliver(ctx, c.Verb, &c, &api.SignedCommand{Command: c.Text()}, marks)
}

// Pass adds signatures to the command of a file, and sends it unless it is saved again.
func (s *CommandSender) Pass(ctx context.Context, file string) error {
	signed, err := read(file)
	if err != nil {
		return err
	}
	c, err := api.ParseCommand(signed.Command)
	if err != nil {
		return cli.Usage("end: %s: %w", file, err)
	}
	if !c.NotAfter.After(s.Console.Now()) {
		return cli.Errorf(api.ExitFailed, "end: %s: it expired at %s; nothing was sent",
			file, c.NotAfter.Format(time.RFC3339))
	}
	if s.Save != "" && len(s.Keys) == 0 {
		return cli.Usage("end: --save belongs to --sign")
	}
	marks, err := s.marks(ctx)
	if err != nil {
		return err
	}
	return s.deliver(ctx, "command", c, signed, marks)
}

// marks are the names of each host in a command.
func (s *CommandSender) marks(ctx context.Context) (map[string][]string, error) {
	if len(s.Hosts) == 0 {
		marks, err := ourMarks()
		return map[string][]string{"": marks}, err
	}
	all := map[string][]string{}
	for _, host := range s.Hosts {
		marks, err := marksOf(ctx, host)
		if err != nil {
			return nil, err
		}
		all[host] = marks
	}
	return all, nil
}

// deliver asks, signs, and saves or sends; verb is the command of lineage, for messages.
func (s *CommandSender) deliver(ctx context.Context, verb string, c *api.Command,
	signed *api.SignedCommand, marks map[string][]string) error {
	if c.Verb == api.VerbEnd && len(s.Hosts) > s.MaxHosts {
		return hosts.TooMany(c.Verb, len(s.Hosts), s.MaxHosts)
	}
	for _, key := range s.Keys {
		_, err := os.Stat(key)
		if _, agent := os.Stat(key + ".pub"); err != nil && agent != nil {
			return cli.FileError(err)
		}
	}
	if !s.Yes {
		p := s.Console.Page(s.Console.Stderr, false)
		if len(s.Hosts) > 0 && (c.All || len(c.Sessions) > 0) {
			text.Hosts(hosts.Each(ctx, s.Dial, s.Hosts, hosts.Time, signingPlanned(c))).Text(p)
		}
		p.Wrap(0, display.Text(describe(c)))
		p.Wrap(0, display.Text("hosts: "+strings.Join(c.Hosts, ", ")))
		question := "Send it?"
		if len(s.Keys) > 0 {
			question = "Sign it?"
		}
		if err := s.Console.Confirm(verb, p, question); err != nil {
			return err
		}
	}
	for _, key := range s.Keys {
		signature, err := sign(ctx, signed.Command, key)
		if err != nil {
			return err
		}
		signed.Signatures = append(signed.Signatures, signature)
	}
	if len(signed.Signatures) > api.MaxSignatures {
		return cli.Usage("%s: more than %d signatures", verb, api.MaxSignatures)
	}
	if s.Save != "" {
		if err := write(s.Save, signed); err != nil {
			return err
		}
		s.Console.Say("%s: saved; nothing was sent. It is valid until %s: lineage end --from %s",
			verb, c.NotAfter.Local().Format(time.TimeOnly), s.Save)
		return nil
	}
	send := func(ctx context.Context, host string, client api.Client) (*text.Listing, error) {
		return s.send(ctx, client, c, signed, marks[host])
	}
	if len(s.Hosts) == 0 {
		client, err := s.Local(ctx)
		if err != nil {
			return err
		}
		defer client.Close()
		l, err := send(ctx, "", client)
		if l != nil {
			if perr := s.Console.Print(s.Format, l); perr != nil {
				return perr
			}
		}
		return err
	}
	ask := hosts.Waves
	if c.Verb == api.VerbHalt { // everywhere at once
		ask = hosts.Each
	}
	return hosts.Print(s.Console, s.Format, ask(ctx, s.Dial, s.Hosts, hosts.Time+s.patience(c), send))
}

// signingPlanned lists the sessions of a host that a command would end, as far as the caller may read them.
func signingPlanned(c *api.Command) hosts.Asker {
	return func(ctx context.Context, _ string, client api.Client) (*text.Listing, error) {
		list, err := client.Sessions(ctx, "live", "")
		if err != nil {
			return nil, err
		}
		all, sel := slices.Clone(list.Items), &api.Selection{Words: c.Sessions}
		list.Items = slices.DeleteFunc(list.Items, func(x api.Session) bool {
			named := slices.Contains(c.Sessions, x.ID) || slices.Contains(c.Sessions, x.Name)
			return !sel.Matches(&x) || !named && c.Verb == api.VerbEnd && sel.Spares(&x, all, 0) != ""
		})
		if len(list.Items) == 0 {
			return nil, cli.Errorf(api.ExitNotFound, "no session that you may see would end")
		}
		return text.Sessions(list), nil
	}
}

// patience is how long a host may take to carry out a command. The grace of its sessions is not known here.
func (s *CommandSender) patience(c *api.Command) time.Duration {
	switch {
	case c.Verb != api.VerbEnd:
		return s.Timeout
	case c.GraceMS != nil:
		return time.Duration(*c.GraceMS)*time.Millisecond + s.Timeout
	}
	return api.MaxGrace + s.Timeout
}

func describe(c *api.Command) string {
	what := "end the sessions " + strings.Join(c.Sessions, ", ")
	switch {
	case c.Mode == api.ModeDrain:
		what = "let no agent and no session start; end none"
	case c.Mode == api.ModeOff:
		what = "lift the halt"
	case c.All && c.Mode == api.ModeHalt:
		what = "end all live sessions, and let no agent start"
	case c.All:
		what = "end all live sessions that are not kept"
	case c.Mode == api.ModeHalt:
		what += ", and let no agent start"
	}
	if c.GraceMS != nil {
		what += fmt.Sprintf(", SIGKILL after %v", time.Duration(*c.GraceMS)*time.Millisecond)
	}
	return fmt.Sprintf("command %s: %s. Reason: %s. Valid until %s", c.ID, what, c.Reason,
		c.NotAfter.Local().Format(time.DateTime))
}

// send sends a command to one host, and waits for the verdicts.
func (s *CommandSender) send(ctx context.Context, client api.Client, c *api.Command,
	signed *api.SignedCommand, marks []string) (*text.Listing, error) {
	reply, err := client.Command(ctx, *signed)
	if err != nil {
		return nil, err
	}
	if _, err := verified(reply, c, marks); err != nil {
		return nil, err
	}
	deadline := time.Now().Add(s.patience(c))
	for {
		asked := time.Now()
		left := max(deadline.Sub(asked), 0)
		if reply, err = client.CommandReceipt(ctx, c.ID, min(left, api.MaxWait)); err != nil {
			return nil, err
		}
		r, err := verified(reply, c, marks)
		if err != nil {
			return nil, err
		}
		if r.Complete || left == 0 {
			return listing(reply, r)
		}
		select { // a daemon that stops does not wait
		case <-time.After(max(pollPause-time.Since(asked), 0)):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// verified is the receipt of a reply, if it is of the command, and signed with a key of the host.
func verified(d *api.CommandReply, c *api.Command, marks []string) (*api.CommandReceipt, error) {
	var r api.CommandReceipt
	if err := json.Unmarshal([]byte(d.Receipt), &r); err != nil || r.ID != c.ID {
		return nil, cli.Errorf(api.ExitFailed, "the receipt is not of command %s", c.ID)
	}
	keyed := slices.ContainsFunc(marks, func(m string) bool { return strings.HasPrefix(m, "SHA256:") })
	if d.Signature == "" && !keyed {
		return &r, nil
	}
	s, err := sshsig.Unarmor([]byte(d.Signature))
	if err != nil {
		return nil, cli.Errorf(api.ExitFailed,
			"the receipt of command %s is not signed; the daemon's log says why", c.ID)
	}
	if mark := ssh.FingerprintSHA256(s.PublicKey); !slices.Contains(marks, mark) {
		return nil, cli.Errorf(api.ExitFailed,
			"the receipt of command %s is signed with %s, a key that the host is not known by", c.ID, mark)
	}
	if err := sshsig.Verify(strings.NewReader(d.Receipt), s, s.PublicKey, s.HashAlgorithm,
		api.ReceiptNamespace); err != nil {
		return nil, cli.Errorf(api.ExitFailed,
			"the signature of the receipt of command %s is wrong: %w", c.ID, err)
	}
	return &r, nil
}

// listing shows a receipt. The error says what is left.
func listing(d *api.CommandReply, r *api.CommandReceipt) (*text.Listing, error) {
	receipts := make([]text.Receipt, len(r.Reports))
	var left []string
	for i := range r.Reports {
		report := &r.Reports[i]
		report.Head = api.NewHead("report")
		receipts[i] = text.Receipt{Report: report}
		if report.Verdict != api.VerdictClean {
			left = append(left, text.Shortfall(report))
		}
	}
	if !r.Complete && len(left) == 0 { // over a bus it has no reports then
		left = []string{"the receipt of command " + r.ID + " did not come in time"}
	}
	l := text.Receipts(receipts, true)
	l.Doc, l.Items = d, []any{d}
	show := l.Text
	l.Text = func(p *text.Page) {
		show(p)
		by := "signed by the host key " + d.HostKey
		if d.Signature == "" {
			by = "not signed: the host has no SSH key"
		}
		did := ""
		if r.Mode != "" {
			did = " (halt: " + r.Mode + ")"
		}
		p.Line("command %s%s, ordered by %s: %s", r.ID, display.Text(did),
			display.Text(strings.Join(r.Operators, ", ")), by)
	}
	switch {
	case len(left) > 0:
		return l, cli.Errorf(api.ExitLeft, "%s", strings.Join(append(left, r.Spared...), "; "))
	case len(r.Spared) > 0:
		return l, cli.Errorf(api.ExitDenied, "not ended: %s", strings.Join(r.Spared, "; "))
	}
	return l, nil
}

const maxFile = 64 << 10

func read(file string) (*api.SignedCommand, error) {
	f, err := os.OpenFile(file, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a FIFO may have no writer
	if err != nil {
		return nil, cli.FileError(err)
	}
	defer f.Close()
	content, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, err
	}
	var s api.SignedCommand
	if len(content) > maxFile || json.Unmarshal(content, &s) != nil || s.Command == "" {
		return nil, cli.Usage("end: %s is not a command that --save has written", file)
	}
	return &s, nil
}

// write writes the file of a command: a new one, or the one that was read.
func write(file string, s *api.SignedCommand) error {
	content, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|syscall.O_NONBLOCK, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(append(content, '\n'))
	return errors.Join(err, f.Close())
}
