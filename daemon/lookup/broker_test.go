package lookup

import (
	"crypto/sha256"
	"strings"
	"testing"
)

func TestMarks(t *testing.T) {
	sum := func(s string) Sum { return sha256.Sum256([]byte(s)) }
	for environ, want := range map[string]BrokerMarks{
		"":                                            {},
		"LINEAGE_TOKEN=":                              {},
		"LINEAGE_TOKEN":                               {},
		"XLINEAGE_TOKEN=a\x00":                        {},
		"A=1\x00LINEAGE_TOKEN=abc\x00B=2":             {Token: sum("abc")},
		"LINEAGE_SESSION=k3x9q2\x00":                  {Session: sum("k3x9q2")},
		"LINEAGE_TOKEN=a\x00LINEAGE_TOKEN=b":          {Token: sum("a")},
		"LINEAGE_TOKEN=a=b\x00":                       {Token: sum("a=b")},
		"BUILD_ID=7\x00BUILD_IDS=8\x00":               {Cookies: []Cookie{{"BUILD_ID", sum("7")}}},
		"SSH_CONNECTION=127.0.0.1 5 127.0.0.1 22\x00": {LocalSSH: true},
		"SSH_CONNECTION=10.0.0.9 5 10.0.0.1 22\x00":   {},
		"SSH_CONNECTION=x\x00":                        {},
	} {
		got := BrokerMarksOf([]byte(environ))
		if got.Token != want.Token || got.Session != want.Session || got.LocalSSH != want.LocalSSH || len(got.Cookies) != len(want.Cookies) ||
			len(want.Cookies) > 0 && got.Cookies[0] != want.Cookies[0] {
			t.Errorf("%q: %+v", environ, got)
		}
	}
}

func TestJobToken(t *testing.T) {
	want := Sum(sha256.Sum256([]byte("ABC")))
	for script, ok := range map[string]bool{
		"#!/bin/sh\n# atrun uid=0\nHOME=/; export HOME\nLINEAGE_TOKEN=ABC; export LINEAGE_TOKEN\ncd /\n": true,
		"LINEAGE_TOKEN=ABC":                      false, // cut off
		"LINEAGE_TOKEN=; export LINEAGE_TOKEN\n": false,
		"echo LINEAGE_TOKEN=ABC; export B\n":     false,
		"":                                       false,
	} {
		if got := JobToken([]byte(script)); (got == want) != ok || !ok && got != (Sum{}) {
			t.Errorf("%q: %x", script, got)
		}
	}
}

func TestPlace(t *testing.T) {
	id := strings.Repeat("0123456789abcdef", 4)
	for text, want := range map[string]BrokerPlace{
		"":                                  {User: -1},
		"0::/\n":                            {User: -1},
		"nonsense":                          {User: -1},
		"0::/system.slice/run-u7.service\n": {Unit: "run-u7.service", User: -1},
		"0::/user.slice/user-1000.slice/user@1000.service/app.slice/x.service\n":              {Unit: "x.service", User: 1000},
		"0::/user.slice/user-1000.slice/user@1000.service/init.scope\n":                       {Unit: "init.scope", User: 1000},
		"0::/user.slice/user-1000.slice/user@1000.service\n":                                  {User: 1000},
		"0::/system.slice/x.service/user@-1.service\n":                                        {Unit: "user@-1.service", User: -1},
		"0::/system.slice/docker-" + id + ".scope\n":                                          {Unit: "docker-" + id + ".scope", User: -1},
		"3:cpu:/docker/" + id + "\n1:name=systemd:/system.slice/docker.service\n0::/docker\n": {Unit: "docker.service", User: -1},
		"3:cpu:/system.slice/a.service\n0::/b.service\n":                                      {Unit: "b.service", User: -1},
	} {
		if got := BrokerPlaceOf(text); got != want {
			t.Errorf("%q: %+v, want %+v", text, got, want)
		}
	}
}

func TestRequest(t *testing.T) {
	for command, want := range map[string]string{
		"/usr/bin/tmux":                                     "tmux",
		"/usr/bin/tmux new-session -d sleep 9":              "tmux",
		"tmux -L x -f /dev/null neww sleep 9":               "tmux",
		"tmux -L new ls":                                    "",
		"tmux kill-server":                                  "",
		"/bin/nottmux new":                                  "",
		"screen -dmS x sleep 9":                             "screen",
		"screen -ls":                                        "",
		"systemd-run --unit=x sleep 9":                      "systemd unit x.service",
		"systemd-run --user -u x.service -p A=b sleep -u y": "systemd unit x.service",
		"systemd-run sleep 9 --unit=y":                      "systemd",
		"systemd-run -- sleep --unit=y":                     "systemd",
		"systemd-run --scope sleep 9":                       "",
		"systemd-run -u x -p A=b --scope sleep 9":           "",
		"systemd-run -p A=b sleep --scope":                  "systemd",
		"at now + 1 minute":                                 "atd",
		"at -l":                                             "",
		"crontab -":                                         "cron",
		"crontab -l":                                        "",
		"crontab -u me -l":                                  "",
		"docker ps":                                         "",
		"docker run alpine":                                 "docker new",
		"docker -H unix:///x run -d --name n -e A=b alpine sh":  "docker new container n",
		"docker container run --name=n alpine":                  "docker new container n",
		"docker run alpine sh --name n":                         "docker new",
		"docker exec run sh":                                    "docker container run: sh",
		"/usr/bin/docker -H unix:///x exec -it web sh":          "docker container web: sh",
		"docker --host=x container exec -e A=b -w /x web ls -l": "docker container web: ls -l",
		"docker exec -eA=b -itu root web id":                    "docker container web: id",
		"docker exec --user root --env A=b --detach web id":     "docker container web: id",
		"docker exec -- web id":                                 "docker container web: id",
		"docker exec --detach-keys ctrl-a web -v":               "docker container web: -v",
		"docker exec web":                                       "",
		"docker exec -u":                                        "",
		"docker exec":                                           "",
		"docker container":                                      "",
		"docker":                                                "",
		"docker -H":                                             "",
		"podman exec web true":                                  "",
		"docker ps exec web true":                               "",
		"docker -H run ps":                                      "",
		"ssh localhost true":                                    "sshd",
		"ssh -p 22 me@127.0.0.1 true":                           "sshd",
		"ssh example.org true":                                  "",
		"/opt/codex/bin/codex":                                  "codex",
		"codex -m x resume":                                     "codex",
		"codex --no-daemon":                                     "",
		"codex resume --last --no-daemon":                       "",
		"codex -C exec exec fix":                                "",
		"codex --version":                                       "",
		"codex app-server --listen unix:// --managed-daemon":    "codex serves",
	} {
		argv := strings.Fields(command)
		e, ok := BrokerRequestOf(argv[0], argv)
		got := ""
		if ok {
			got = e.Kind.Name
			if e.Unit != "" {
				got += " unit " + e.Unit
			}
			if e.NewContainer {
				got += " new"
			}
			if e.Serves {
				got += " serves"
			}
			if e.Container != "" {
				got += " container " + e.Container
			}
			for i := 1; i < len(argv) && e.Command != ""; i++ {
				if CommandOf(argv[i], argv[i:]) == e.Command {
					got += ": " + strings.Join(argv[i:], " ")
				}
			}
		}
		if got != want {
			t.Errorf("%s: %q, want %q", command, got, want)
		}
		if ok && !IsBrokerClient([]byte(argv[0])) {
			t.Errorf("%s: no client", command)
		}
	}
	if _, ok := BrokerRequestOf("/bin/codex", []string{"/usr/bin/env", "node", "/bin/codex", "exec", "fix"}); ok {
		t.Error("a script that starts the client is none")
	}
	for _, argv := range [][]string{nil, {"docker", "exec", "", "true"}} {
		if _, ok := BrokerRequestOf("docker", argv); ok {
			t.Errorf("%q asks for nothing", argv)
		}
	}
	long := append(strings.Fields("docker exec web"), make([]string, 2*maxWords)...)
	long[3] = "true"
	if e, _ := BrokerRequestOf("docker", long); e.Command != CommandOf("true", long[3:]) {
		t.Error("a part of a long command")
	}
}

// A command is the same with another path to its file, and as the script that it is.
func TestCommandOf(t *testing.T) {
	sum := func(file, argv string) string { return CommandOf(file, strings.Split(argv, " ")) }
	want := sum("ls", "ls -l")
	for file, argv := range map[string]string{"/bin/ls": "ls -l", "/work/ls": "/bin/sh /work/ls -l", "ls": "/usr/bin/env -S ls -l"} {
		if sum(file, argv) != want {
			t.Errorf("%s, %s is another command", file, argv)
		}
	}
	for file, argv := range map[string]string{"/bin/ls": "ls -a", "/bin/cat": "cat -l", "ls": "ls -l -l"} {
		if sum(file, argv) == want {
			t.Errorf("%s, %s is the same command", file, argv)
		}
	}
	if CommandOf("/bin/ls", nil) != "" || sum("/bin/ls", "a b c ls -l") != "" {
		t.Error("a command that is not known has no sum")
	}
}

func TestElsewhere(t *testing.T) {
	e, _ := BrokerRequestOf("tmux", strings.Fields("tmux -S /tmp/a neww"))
	for command, want := range map[string]bool{
		"tmux -S /tmp/a new -d": false, "tmux -f /dev/null -S /tmp/b new-session": true,
		"tmux -L a new": false, "tmux new": false, "tmux start-server": false, "": false,
	} {
		if got := e.Elsewhere("tmux", strings.Fields(command)); got != want {
			t.Errorf("%s: %v", command, got)
		}
	}
	if e, _ := BrokerRequestOf("tmux", []string{"tmux", "neww"}); e.Elsewhere("tmux", strings.Fields("tmux -S /tmp/b new")) {
		t.Error("it may have been told by $TMUX")
	}
}

// No command line or environment of a process makes anything here fail.
func FuzzHostile(f *testing.F) {
	f.Add("tmux", "new\x00-L", []byte("LINEAGE_TOKEN=a\x00SSH_CONNECTION= "))
	f.Add("docker", "docker\x00container", []byte("0::/user@/x.service"))
	f.Add("docker", "docker\x00run\x00--name", []byte{0, '=', 0})
	f.Add("docker", "docker\x00exec\x00-e\x00--\x00-", []byte{})
	f.Fuzz(func(t *testing.T, exe, words string, b []byte) {
		if e, ok := BrokerRequestOf(exe, strings.Split(words, "\x00")); ok && (e.Kind == nil || !IsBrokerClient([]byte(exe))) {
			t.Errorf("%+v", e)
		}
		if m := BrokerMarksOf(b); len(m.Cookies) > len(cookies) {
			t.Errorf("%d cookies", len(m.Cookies))
		}
		CommandOf(exe, strings.Split(words, "\x00"))
		JobToken(b)
		BrokerPlaceOf(string(b))
	})
}
