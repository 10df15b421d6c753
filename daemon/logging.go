//go:build linux

package daemon

import (
	"fmt"
	"io"
	"os"

	"github.com/rs/zerolog"
	"github.com/rs/zerolog/journald"
	"golang.org/x/sys/unix"
)

// openLog gives the log and its end: lines of JSON in the file, if there is
// one, else on stderr; under a service manager that reads stderr into the
// toJournald they go there by themselves, with their fields; and to a terminal as
// text for people. Messages are constant, so that each is a kind of its own:
// see damper. No argv is ever among the fields.
func openLog(path string, stderr *os.File, env func(string) string) (zerolog.Logger, func(), error) {
	w, closeFile := logWriter(stderr, env), func() {}
	if path != "" {
		l, err := openLogFile(path)
		if err != nil {
			return zerolog.Nop(), nil, err
		}
		w, closeFile = l, l.close
	}
	q := newLogQueue(w)
	log := zerolog.New(q).With().Timestamp().Logger()
	d := newDamper(log)
	return log.Hook(d), func() { d.close(); q.close(); closeFile() }, nil
}

// logWriter says where lines go that no file takes.
func logWriter(stderr *os.File, env func(string) string) io.Writer {
	switch {
	case journalReads(stderr, env("JOURNAL_STREAM")):
		return &systemLog{to: journald.NewJournalDWriter(), stderr: stderr}
	case isTerminal(stderr):
		return zerolog.ConsoleWriter{Out: stderr, NoColor: env("NO_COLOR") != "", TimeFormat: "15:04:05"}
	}
	return stderr
}

// journalReads: stream is the device and inode of the file that the journal
// reads. A program whose output goes elsewhere has it from its parent.
func journalReads(f *os.File, stream string) bool {
	var st unix.Stat_t
	if stream == "" || unix.Fstat(int(f.Fd()), &st) != nil {
		return false
	}
	return stream == fmt.Sprintf("%d:%d", st.Dev, st.Ino)
}

func isTerminal(f *os.File) bool {
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}

// systemLog is the journal by its own protocol. What it does not take goes to
// stderr, which it reads as well.
type systemLog struct{ to, stderr io.Writer }

func (j *systemLog) Write(line []byte) (int, error) {
	if _, err := j.to.Write(line); err != nil {
		return j.stderr.Write(line)
	}
	return len(line), nil
}
