package redact

import (
	"regexp"
	"strings"
	"testing"

	"github.com/lineage-ebpf/lineage/internal/require"
)

func TestArgv(t *testing.T) {
	own := []*regexp.Regexp{regexp.MustCompile(`--pin[= ]\S+`), regexp.MustCompile(`id-(\d+)`)}
	for in, want := range map[string]string{
		"curl|-s|http://x":                       "curl|-s|http://x",
		"x|--token=abc|y":                        "x|--token=[redacted]|y",
		"x|--token|abc|y":                        "x|--token|[redacted]|y",
		"x|--token|-y":                           "x|--token|-y",
		"x|--API-KEY|abc":                        "x|--API-KEY|[redacted]",
		"x|--password=my long one|y":             "x|--password=[redacted]|y",
		"env|LINEAGE_TOKEN=abc|cmd":              "env|LINEAGE_TOKEN=[redacted]|cmd",
		"env|AWS_SECRET_ACCESS_KEY=abc def":      "env|AWS_SECRET_ACCESS_KEY=[redacted]",
		"sh|-c|A_TOKEN=abc run --x":              "sh|-c|A_TOKEN=[redacted]",
		"sh|-c|run A_TOKEN=abc --x":              "sh|-c|run A_TOKEN=[redacted] --x",
		"sh|-c|run --secret 'abc' x":             "sh|-c|run --secret '[redacted]' x",
		"curl|-H|Authorization: Bearer abcdefgh": "curl|-H|Authorization: Bearer [redacted]",
		"psql|postgres://me:pw@host/db":          "psql|postgres://me:[redacted]@host/db",
		"x|sk-abcdefghijklmnopqrst":              "x|[redacted]",
		"x|ghp_abcdefghijklmnopqrst|y":           "x|[redacted]|y",
		"curl|-u|me:pw|http://x":                 "curl|-u|me:[redacted]|http://x",
		"/usr/bin/curl|-sume:my pw:2|http://x":   "/usr/bin/curl|-sume:[redacted]|http://x",
		"curl|--user=me:pw|-U|me:a b":            "curl|--user=me:[redacted]|-U|me:[redacted]",
		"curl|-u|me|http://x:80/":                "curl|-u|me|http://x:80/",
		"docker|run|-u|1000:1000":                "docker|run|-u|1000:1000",
		"mysql|-u|me|-pmy pw|db":                 "mysql|-u|me|-p[redacted]|db",
		"mysqldump|-p|db|--port=3":               "mysqldump|-p|db|--port=3",
		"mkdir|-p|a/b":                           "mkdir|-p|a/b",
		"sshpass|-p|my pw|ssh|h":                 "sshpass|-p|[redacted]|ssh|h",
		"sshpass|-ppw|ssh|-p|22":                 "sshpass|-p[redacted]|ssh|-p|[redacted]",
		"sh|-c|cd x; curl -s -u me:pw http://y":  "sh|-c|cd x; curl -s -u me:[redacted] http://y",
		"sh|-c|mysql -u me -ppw db | wc":         "sh|-c|mysql -u me -p[redacted] db | wc",
		"sh|-c|sshpass -p 'pw' ssh h":            "sh|-c|sshpass -p '[redacted]' ssh h",
		"git|commit|-m|the key is simple":        "git|commit|-m|the key is simple",
		"x|--pin|1234|y":                         "x|[redacted]|[redacted]|y",
		"x|--pin=1234":                           "x|[redacted]",
		"x|id-77|y":                              "x|id-[redacted]|y",
		"":                                       "",
	} {
		argv := strings.Split(in, "|")
		got := strings.Join(Argv(argv, own...), "|")
		if got != want {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
		require.Equal(t, strings.Join(argv, "|"), in)
	}
	if Argv(nil) != nil {
		t.Error("nothing became something")
	}
}

// FuzzArgv: the number of arguments stays, and a secret with a known name is always
// hidden.
func FuzzArgv(f *testing.F) {
	f.Add("--token", "abc", "x y")
	f.Add("-c", "A=b --key='x y'", "\xff")
	f.Fuzz(func(t *testing.T, a, b, secret string) {
		argv := []string{a, b, "--my-token=" + secret}
		got := Argv(argv)
		if len(got) != 3 || secret != "" && got[2] != "--my-token="+Hidden && got[2] != Hidden {
			t.Fatalf("%q: %q", argv, got)
		}
	})
}

func TestToken(t *testing.T) {
	for argv, want := range map[string]string{
		"": "", "tmux\x00new": "tmux\x00new", "LINEAGE_TOKEN=": "LINEAGE_TOKEN=",
		"tmux\x00-e\x00LINEAGE_TOKEN=ABC234\x00sleep":             "tmux\x00-e\x00LINEAGE_TOKEN=******\x00sleep",
		"sh\x00-c\x00LINEAGE_TOKEN='A' x; LINEAGE_TOKEN=AB y\x00": "sh\x00-c\x00LINEAGE_TOKEN='*' x; LINEAGE_TOKEN=** y\x00",
	} {
		b := []byte(argv)
		if Token(b); string(b) != want {
			t.Errorf("%q: %q, want %q", argv, b, want)
		}
	}
}
