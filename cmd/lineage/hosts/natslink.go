package hosts

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/cmd/lineage/cli"
	"github.com/lineage-ebpf/lineage/cmd/lineage/service"
	"github.com/lineage-ebpf/lineage/cmd/lineage/urgent"
)

// NATSLink is the other program.
type NATSLink struct {
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stdout *bufio.Reader
	socket string
}

func StartNATSLink(ctx context.Context, program string, o *service.LinkOptions) (*NATSLink, error) {
	dir, err := os.MkdirTemp("", "lineage-nats-") // with mode 0700
	if err != nil {
		return nil, fmt.Errorf("NATS: %w", err)
	}
	l := &NATSLink{socket: filepath.Join(dir, "sock")}
	args := []string{service.OperatorArg, "--socket=" + l.socket,
		"--server=" + strings.Join(o.Servers, ","), "--name=" + o.Name}
	for flag, value := range map[string]string{"--nkey=": o.Nkey, "--creds=": o.Creds, "--ca=": o.CA} {
		if value != "" {
			args = append(args, flag+value)
		}
	}
	l.cmd = exec.CommandContext(ctx, program, args...)
	l.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C is for this command only
	var said bytes.Buffer
	l.cmd.Stderr = &said
	stdin, inErr := l.cmd.StdinPipe()
	stdout, outErr := l.cmd.StdoutPipe()
	if err = errors.Join(inErr, outErr); err == nil {
		urgent.Relax()
		err = l.cmd.Start()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("NATS: %w", err), os.RemoveAll(dir))
	}
	l.stdin, l.stdout = stdin, bufio.NewReader(stdout)
	if line, err := l.stdout.ReadString('\n'); err == nil && line == "ready\n" {
		return l, nil
	}
	l.Close()
	why := strings.TrimSpace(said.String())
	if i := strings.LastIndexByte(why, '\n'); i >= 0 {
		why = why[i+1:]
	}
	code := l.cmd.ProcessState.ExitCode()
	if code <= 0 || why == "" {
		return nil, fmt.Errorf("NATS: %s has failed: %v", program, l.cmd.ProcessState)
	}
	return nil, cli.Errorf(code, "%s", strings.TrimPrefix(why, "lineage: "))
}

// endTime is how long the program may take to end.
const endTime = time.Second

func (l *NATSLink) Close() {
	if l == nil {
		return
	}
	kill := time.AfterFunc(endTime, func() { _ = l.cmd.Process.Kill() }) // it may be gone
	defer kill.Stop()
	_ = l.stdin.Close()
	_ = l.cmd.Wait()
	_ = os.RemoveAll(filepath.Dir(l.socket))
}

// Dial connects to the daemon of a host. Its name is that of ssh, as the links have it by default.
func (l *NATSLink) Dial(ctx context.Context, host string) (api.Client, error) {
	name := service.NameOf(host)
	if !service.IsName(name) {
		return nil, cli.Usage("%q cannot be the name of a host in subjects", host)
	}
	return api.DialOver(ctx, host, func(ctx context.Context) (net.Conn, error) {
		c, err := new(net.Dialer).DialContext(ctx, "unix", l.socket)
		if err != nil {
			return nil, err
		}
		if _, err := io.WriteString(c, name+"\n"); err != nil {
			c.Close()
			return nil, err
		}
		return c, nil
	})
}

// Hosts are those that are there.
func (l *NATSLink) Hosts() (list List, err error) {
	late := time.AfterFunc(Time, func() { _ = l.cmd.Process.Kill() })
	defer late.Stop()
	var all service.Hosts
	if _, err = io.WriteString(l.stdin, "hosts\n"); err == nil {
		err = json.NewDecoder(l.stdout).Decode(&all)
	}
	if err == nil && all.Error != "" {
		err = errors.New(all.Error)
	}
	if err != nil {
		return nil, cli.Errorf(api.ExitUnreachable, "NATS: no list of the hosts: %w", err)
	}
	slices.Sort(all.Names)
	for _, name := range slices.Compact(all.Names) { // a host that said so meanwhile is in it again
		list = append(list, service.HostOf(name))
	}
	if len(list) == 0 {
		return nil, cli.Errorf(api.ExitNotFound,
			"NATS: no host is there; a host is while its link is connected")
	}
	return list, nil
}
