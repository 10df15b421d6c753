package service

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
)

// ExportProgram is a separate binary, with dependencies that the daemon's binary must not have.
const ExportProgram = "lineage-export"

// ExportSignals are what can be sent by OTLP.
var ExportSignals = []string{"traces", "logs"}

type ExportOptions struct {
	OTLP       string
	Signals    []string
	OCSF       string
	NATS       string
	CA         string
	HeaderFile string
	State      string
	Metrics    string
}

func (o *ExportOptions) Flags(f *pflag.FlagSet) {
	f.StringVar(&o.OTLP, "otlp", "", "send by OTLP/HTTP to this base `URL`, as http://127.0.0.1:4318")
	f.StringSliceVar(&o.Signals, "signals", ExportSignals,
		"`SIGNAL,...` that --otlp sends: "+strings.Join(ExportSignals, ", "))
	f.Lookup("signals").DefValue = strings.Join(ExportSignals, ",") // without brackets
	f.StringVar(&o.OCSF, "ocsf", "", "append OCSF records to this `FILE`, one JSON object per line; - is stdout")
	f.StringVar(&o.NATS, "nats", "", "store receipts, as this host, at the servers of this `@GROUP` of hosts.yaml")
	f.StringVar(&o.CA, "ca", "", "`FILE` with the certificates that --otlp trusts, in place of the system's")
	f.StringVar(&o.HeaderFile, "header-file", "",
		"`FILE` with headers for --otlp, one \"Name: value\" per line")
	f.StringVar(&o.State, "state", "", "`DIR` for the cursors (default $STATE_DIRECTORY); none: after a restart, the events in between are not sent")
	f.StringVar(&o.Metrics, "metrics", "",
		"serve the daemon's metrics on this TCP `ADDRESS`, as 127.0.0.1:9750")
}

// Check says what is wrong with the flags, without reading a file.
func (o *ExportOptions) Check() error {
	if o.OTLP == "" && o.OCSF == "" && o.NATS == "" && o.Metrics == "" {
		return errors.New("nothing to export to: give one of --otlp, --ocsf, --nats and --metrics")
	}
	if o.NATS != "" && !strings.HasPrefix(o.NATS, "@") {
		return fmt.Errorf("invalid --nats %q: must be @GROUP", o.NATS)
	}
	if o.OTLP != "" {
		if err := checkEndpoint(o.OTLP); err != nil {
			return fmt.Errorf("invalid --otlp %q: %w", o.OTLP, err)
		}
	}
	for _, s := range o.Signals {
		if !slices.Contains(ExportSignals, s) {
			return fmt.Errorf("invalid --signals %q: must be some of %s",
				s, strings.Join(ExportSignals, ", "))
		}
	}
	switch {
	case o.OTLP != "" && len(o.Signals) == 0:
		return errors.New("invalid --signals: must not be empty")
	case o.CA != "" && o.OTLP == "":
		return errors.New("--ca needs --otlp")
	case o.HeaderFile != "" && o.OTLP == "":
		return errors.New("--header-file needs --otlp")
	}
	return checkMetrics(o.Metrics)
}

func checkEndpoint(text string) error {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return errors.New("not a URL")
	case u.Scheme != "http" && u.Scheme != "https":
		return errors.New("must begin with http:// or https://")
	case u.Host == "" || u.Hostname() == "":
		return errors.New("has no host")
	case u.User != nil:
		return errors.New("must not contain a password; headers are read from a file")
	case u.RawQuery != "" || u.Fragment != "":
		return errors.New("must not have a query or a fragment")
	}
	return nil
}

// checkMetrics says what is wrong with the TCP address of --metrics; "": it is not given.
func checkMetrics(address string) error {
	host, port, err := net.SplitHostPort(address)
	n, bad := strconv.ParseUint(port, 10, 16)
	switch {
	case address == "":
	case err != nil || strings.ContainsFunc(host, func(c rune) bool { return c <= ' ' || c > '~' }):
		return fmt.Errorf("invalid --metrics %q: use host:port, for instance 127.0.0.1:9750 or [::1]:9750", address)
	case bad != nil || n == 0:
		return fmt.Errorf("invalid --metrics %q: the port must be 1 to 65535", address)
	}
	return nil
}

// ExportArgs are the flags that were given, in the form that the program reads.
func ExportArgs(f *pflag.FlagSet) (args []string) {
	f.VisitAll(func(flag *pflag.Flag) {
		if !flag.Changed {
			return
		}
		value := flag.Value.String()
		if list, ok := flag.Value.(pflag.SliceValue); ok {
			value = strings.Join(list.GetSlice(), ",")
		}
		args = append(args, "--"+flag.Name+"="+value)
	})
	return args
}
