package display

import (
	"strings"
	"testing"

	"github.com/lineage-ebpf/lineage/api"
)

func TestCommand(t *testing.T) {
	long := strings.Repeat("é", 5000)
	for _, tt := range []struct {
		name      string
		argv      []string
		comm      string
		truncated bool
		limit     int
		want      string
	}{
		{"nothing known", nil, "", false, 0, "?"},
		{"name only", nil, "kworker/0:1\n", false, 0, `kworker/0:1\n`},
		{"words", []string{"cc", "-O2", "a.c"}, "cc", false, 0, "cc -O2 a.c"},
		{"empty argument", []string{"printf", "", "x"}, "printf", false, 0, "printf '' x"},
		{"title", []string{"npm run dev", "", "", ""}, "npm", false, 0, "'npm run dev'"},
		{"nothing but empty ones", []string{"", ""}, "x", false, 0, "''"},
		{"blanks and quotes", []string{"sh", "-c", "echo 'x' $y"}, "sh", false, 0, `sh -c 'echo '\''x'\'' $y'`},
		{"escapes", []string{"a\x1b[1mb\n"}, "", false, 0, `'a\x1b[1mb\n'`},
		{"truncated by the kernel", []string{"find", "a"}, "", true, 0, "find a…"},
		{"cut here, between runes", []string{"x", long}, "", false, 8, "x ééé…"},
		{"in full", []string{"x", long}, "", false, 0, "x " + long},
	} {
		if got := Command(tt.argv, tt.comm, tt.truncated, tt.limit); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestBrief(t *testing.T) {
	const python = "/home/me/.pyenv/versions/3.11.7/bin/python3.11"
	long := strings.Repeat("x", 50)
	for _, tt := range []struct {
		name  string
		argv  []string
		comm  string
		limit int
		want  string
	}{
		{"nothing known", nil, "", 0, "?"},
		{"name only", nil, "kworker/0:1\n", 0, `kworker/0:1\n`},
		{"a path before the program", []string{python, "-m", "http.server"}, "python3.11", 0, "python3.11 -m http.server"},
		{"another name", []string{python, "srv.py", "5173"}, "vite", 0, "vite · python3.11 srv.py 5173"},
		{"another name with blanks", []string{"/usr/lib/firefox/firefox", "-contentproc"}, "Web Content", 0, "Web Content · firefox -contentproc"},
		{"a similar name", []string{"vitest", "run"}, "vite", 0, "vite · vitest run"},
		{"a version more", []string{"python3", "srv.py"}, "python3.11", 0, "python3 srv.py"},
		{"a version less", []string{python, "srv.py"}, "python", 0, "python3.11 srv.py"},
		{"a name that the kernel has cut", []string{"/opt/x/language-server-linux", "--stdio"}, "language-server", 0, "language-server-linux --stdio"},
		{"a main thread", []string{"/usr/bin/node", "server.js"}, "MainThread", 0, "node server.js"},
		{"a main thread of node", []string{"node", "server.js"}, "node-MainThread", 0, "node server.js"},
		{"a script", []string{"/bin/bash", "./agent", "x"}, "agent", 0, "bash agent x"},
		{"a script with options", []string{"/bin/bash", "-eu", "/srv/deployments/current/agent"}, "agent", 0, "bash -eu agent"},
		{"an interpreter's script", []string{"/usr/bin/python3", "/srv/deployments/current/srv.py", "5173"}, "python3", 0, "python3 srv.py 5173"},
		{"an interpreter's module", []string{"python3.11", "-m", "http.server", "8000"}, "python3.11", 0, "python3.11 -m http.server 8000"},
		{"an interpreter's text", []string{"sh", "-c", "cd /srv; make"}, "sh", 0, "sh -c 'cd /srv; make'"},
		{"a relative script", []string{"node", "node_modules/.bin/vite", "--port", "5173"}, "node", 0, "node vite --port 5173"},
		{"a script with another name", []string{"node", "/usr/local/bin/npm", "start"}, "npm start", 0, "node npm start"},
		{"a program in a program", []string{"timeout", "5", "/srv/deployments/current/job", "a"}, "timeout", 0, "timeout 5 …/job a"},
		{"a short path", []string{"/bin/cat", "/etc/passwd"}, "cat", 0, "cat /etc/passwd"},
		{"a directory", []string{"ls", "/srv/deployments/current/"}, "ls", 0, "ls …/current/"},
		{"a shell's text", []string{"sh", "-c", "/srv/deployments/current/job a 'b'"}, "sh", 0, `sh -c '…/job a '\''b'\'''`},
		{"no path", []string{"docker", "run", "-v", "/srv/deployments:/mnt/deployments"}, "docker", 0, "docker run -v /srv/deployments:/mnt/deployments"},
		{"a login shell", []string{"-bash"}, "bash", 0, "-bash"},
		{"a title", []string{"npm run dev", "", "", ""}, "npm run dev", 0, "npm run dev"},
		{"a daemon's title", []string{"nginx: master process /usr/sbin/nginx -g daemon off;"}, "nginx", 0, "nginx: master process /usr/sbin/nginx -g daemon off;"},
		{"a title with a path", []string{"/usr/sbin/apache2 -k start"}, "apache2", 0, "apache2 -k start"},
		{"a directory with a blank", []string{"/opt/My App/bin/foo", "x"}, "foo", 0, "foo x"},
		{"no program", []string{"", "x"}, "x", 0, "'' x"},
		{"nothing but a slash", []string{"/", "x"}, "sh", 0, "sh · / x"},
		{"escapes", []string{"/a/\x1b[1mb\n"}, "c\x1b", 0, `c\x1b · '\x1b[1mb\n'`},
		{"cut behind the program", []string{"/" + long + "/prog", "/" + long + "/" + long, "z"}, "prog", 12, "prog …/xxx…"},
		{"a long program", []string{"/" + long + "/" + long}, "", 8, "xxxxxxxx…"},
	} {
		if got := Brief(tt.argv, tt.comm, false, tt.limit); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
	if got := Brief([]string{"find", "a"}, "find", true, 0); got != "find a…" {
		t.Errorf("truncated by the kernel: %q", got)
	}
}

func TestName(t *testing.T) {
	for want, p := range map[string]api.Process{
		"?":          {},
		"vite":       {Comm: "vite", Argv: []string{"/usr/bin/python3", "srv.py"}},
		`a\x1b`:      {Comm: "a\x1b"},
		"node":       {Comm: "MainThread", Argv: []string{"/usr/bin/node", "server.js"}},
		"MainThread": {Comm: "MainThread"},
	} {
		if got := Name(&p); got != want {
			t.Errorf("%+v: %q, want %q", p, got, want)
		}
	}
}
