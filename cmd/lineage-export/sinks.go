//go:build linux

package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/rs/zerolog"

	"github.com/lineage-ebpf/lineage/cmd/lineage-export/follow"
	"github.com/lineage-ebpf/lineage/cmd/lineage-export/ocsf"
	"github.com/lineage-ebpf/lineage/cmd/lineage-export/otlp"
	"github.com/lineage-ebpf/lineage/cmd/lineage-link/bus"
	"github.com/lineage-ebpf/lineage/cmd/lineage/hosts"
	"github.com/lineage-ebpf/lineage/cmd/lineage/service"
)

// sinksOf makes a sink for each receiver. An error is about an option, or a file that an option
// names.
func sinksOf(o *service.ExportOptions, log zerolog.Logger) (all []follow.Sink, err error) {
	if o.OTLP != "" {
		receiver, err := otlpClient(o)
		if err != nil {
			return nil, err
		}
		s := &otlp.Sink{
			Client: receiver, Traces: slices.Contains(o.Signals, "traces"),
			Host: host(), Log: log.With().Str("sink", "otlp").Logger(),
		}
		if slices.Contains(o.Signals, "logs") {
			s.Logs = ocsf.New().Encode
		}
		all = append(all, s)
	}
	if o.OCSF != "" {
		s, err := ocsfSink(o.OCSF)
		if err != nil {
			return nil, fmt.Errorf("--ocsf: %w", err)
		}
		all = append(all, s)
	}
	return all, nil
}

// servers connects to the NATS servers of a group, and is the host's name in subjects.
func servers(o *service.ExportOptions, log zerolog.Logger) (b *bus.Bus, name string, err error) {
	if o.State == "" {
		return nil, "", errors.New("needs --state, else receipts would be missing after a restart")
	}
	f := hosts.Flag{Env: os.Getenv}
	if err := f.Set(o.NATS); err != nil {
		return nil, "", err
	}
	if len(f.Groups) != 1 || len(f.List) > 0 {
		return nil, "", fmt.Errorf("the group %s must have transport: nats", o.NATS)
	}
	if name, err = service.HostName(); err != nil && f.Groups[0].Name == "" {
		return nil, "", err
	}
	l, err := f.Groups[0].Link(name)
	if err != nil {
		return nil, "", err
	}
	b, err = bus.Connect(l, version, log)
	return b, l.Name, err
}

func otlpClient(o *service.ExportOptions) (c otlp.Client, err error) {
	c.Base = o.OTLP
	if c.Header, err = readHeader(o.HeaderFile); err == nil {
		c.HTTP, err = httpClient(o.CA)
	}
	return c, err
}

// ocsfSink writes to standard output, or to a file. Programs that rotate files may send
// SIGHUP, but need not: a renamed file is opened again anyway.
func ocsfSink(path string) (follow.Sink, error) {
	if path == "-" {
		return newFileStream(os.Stdout, ocsf.New().Encode), nil
	}
	signal.Ignore(syscall.SIGHUP)
	return newFileSink(path, ocsf.New().Encode)
}

// httpClient trusts the system's certificates, or those in a file.
func httpClient(ca string) (*http.Client, error) {
	config, err := service.TLS(ca)
	if err != nil {
		return nil, err
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig, transport.ResponseHeaderTimeout = config, 20*time.Second
	// A redirect could lead records and headers elsewhere.
	refuse := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &http.Client{Transport: transport, CheckRedirect: refuse}, nil
}

// readHeader reads a file of headers, one a line. Errors do not repeat its content: it may
// be a password.
func readHeader(file string) (http.Header, error) {
	h := make(http.Header)
	if file == "" {
		return h, nil
	}
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("--header-file: %w", err)
	}
	lines := bufio.NewScanner(bytes.NewReader(b))
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, value, found := strings.Cut(line, ":")
		if name, value = strings.TrimSpace(name), strings.TrimSpace(value); !found || !validHeader(name, value) {
			return nil, fmt.Errorf("--header-file %s: line %d is not \"Name: value\"", file, n)
		}
		h.Add(name, value)
	}
	if lines.Err() != nil {
		return nil, fmt.Errorf("--header-file %s: a line is too long", file)
	}
	if len(h) == 0 {
		return nil, errors.New("--header-file " + file + ": it has no header")
	}
	return h, nil
}

// validHeader reports whether net/http would send a header as it is.
func validHeader(name, value string) bool {
	for _, c := range []byte(name) {
		if c <= ' ' || c >= 0x7f || strings.IndexByte(`"(),/:;<=>?@[\]{}`, c) >= 0 {
			return false
		}
	}
	for _, c := range []byte(value) {
		if c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return name != ""
}
