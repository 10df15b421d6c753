package clients

import (
	"strings"
	"testing"
)

func TestExecOf(t *testing.T) {
	for line, want := range map[string]string{
		"docker exec web true":                                  "web: true",
		"/usr/bin/docker -H unix:///x exec -it web sh":          "web: sh",
		"docker --host=x container exec -e A=b -w /x web ls -l": "web: ls -l",
		"docker exec -eA=b -itu root web id":                    "web: id",
		"docker exec --user root --env A=b --detach web id":     "web: id",
		"docker exec -- web id":                                 "web: id",
		"docker exec --detach-keys ctrl-a web -v":               "web: -v",
		"docker exec web":                                       "",
		"docker exec -u":                                        "",
		"docker exec":                                           "",
		"docker container":                                      "",
		"docker":                                                "",
		"docker -H":                                             "",
		"docker run web true":                                   "",
		"podman exec web true":                                  "",
		"docker ps exec web true":                               "",
	} {
		argv := strings.Fields(line)
		got := ""
		if container, command, ok := execOf(argv[0], argv); ok {
			got = container + ": " + strings.Join(command, " ")
		}
		if got != want {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
	if _, _, ok := execOf("docker", nil); ok {
		t.Error("no words ask for nothing")
	}
	if _, _, ok := execOf("docker", []string{"docker", "exec", "", "true"}); ok {
		t.Error("a container without a name")
	}
}

// A command is the same with another path to its file, and as the script that it is.
func TestSumOf(t *testing.T) {
	sum := func(file, argv string) string { return sumOf(file, strings.Split(argv, " ")) }
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
	if sumOf("/bin/ls", nil) != "" || sum("/bin/ls", "a b c ls -l") != "" {
		t.Error("a command that is not known has no sum")
	}
}

func FuzzExecOf(f *testing.F) {
	f.Add("docker", "docker\x00exec\x00-e\x00--\x00-")
	f.Fuzz(func(t *testing.T, exe, words string) {
		argv := strings.Split(words, "\x00")
		if container, command, ok := execOf(exe, argv); ok && (container == "" || len(command) == 0) {
			t.Errorf("%q", argv)
		}
		sumOf(exe, argv)
	})
}
