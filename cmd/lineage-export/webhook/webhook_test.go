package webhook

import (
	"crypto/x509"
	"errors"
	"io"
	"iter"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/lineage-ebpf/lineage/cmd/lineage-export/follow"
	"github.com/lineage-ebpf/lineage/cmd/lineage-export/record"
)

// TestSign: the example of Standard Webhooks.
func TestSign(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(path, []byte("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	key, err := ReadKey(path)
	if err != nil {
		t.Fatal(err)
	}
	const want = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
	if got := Sign(key, "msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", []byte(`{"test": 2432232314}`)); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestReadKey(t *testing.T) {
	dir := t.TempDir()
	for name, c := range map[string]struct {
		text string
		mode os.FileMode
		want string // in the error; empty: none
	}{
		"plain":    {"0123456789abcdef01234567\n", 0o600, ""},
		"group":    {"0123456789abcdef01234567\n", 0o640, ""},
		"short":    {"hunter2\n", 0o600, "has 7 bytes, must be 24 to 64"},
		"long":     {strings.Repeat("x", 65), 0o600, "has 65 bytes"},
		"empty":    {"", 0o600, "has 0 bytes"},
		"readable": {"0123456789abcdef01234567\n", 0o644, "every user may read or write it"},
		"coded":    {"whsec_hunter2!", 0o600, "not Base64"},
	} {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.WriteFile(path, []byte(c.text), 0o600), os.Chmod(path, c.mode)); err != nil {
			t.Fatal(err)
		}
		key, err := ReadKey(path)
		switch {
		case c.want == "" && (err != nil || string(key) != strings.TrimSpace(c.text)):
			t.Errorf("%s: %q, %v", name, key, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), path) || strings.Contains(err.Error(), "hunter2")):
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
	if _, err := ReadKey(filepath.Join(dir, "absent")); err == nil {
		t.Error("a file that is not there was read")
	}
}

var key = []byte("0123456789abcdef01234567")

// numbered encodes a record as its id, twice.
type numbered struct{}

func (numbered) Encode(r *record.Record) iter.Seq2[record.Log, error] {
	return func(yield func(record.Log, error) bool) {
		for _, part := range []string{"a", "b"} {
			if !yield(record.Log{ID: r.ID + part, JSON: []byte(`"` + r.ID + part + `"`)}, nil) {
				return
			}
		}
	}
}

// receiver checks what is posted, and gives its scripted answers, then 204.
type receiver struct {
	*httptest.Server
	t       *testing.T
	answers []func(http.ResponseWriter, *http.Request)
	taken   []string // ids
}

func newReceiver(t *testing.T, answers ...func(http.ResponseWriter, *http.Request)) (*receiver, *Sink) {
	r := &receiver{t: t, answers: answers}
	r.Server = httptest.NewTLSServer(r)
	t.Cleanup(r.Close)
	client := r.Client()
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return r, &Sink{URL: r.URL + "/hook", Key: key, HTTP: client, Encoder: numbered{}, Log: zerolog.Nop()}
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	body, err := io.ReadAll(q.Body)
	id, at := q.Header.Get("webhook-id"), q.Header.Get("webhook-timestamp")
	seconds, bad := strconv.ParseInt(at, 10, 64)
	if age := time.Since(time.Unix(seconds, 0)); err != nil || bad != nil || age < -time.Minute || age > time.Minute {
		r.t.Errorf("timestamp %q (%v, %v)", at, err, bad)
	}
	if string(body) != `"`+id+`"` || q.Header.Get("webhook-signature") != Sign(key, id, at, body) || q.Method != http.MethodPost || q.Header.Get("Content-Type") != "application/json" {
		r.t.Errorf("%s %v: %s", q.Method, q.Header, body)
	}
	if len(r.answers) > 0 {
		answer := r.answers[0]
		r.answers = r.answers[1:]
		if answer != nil {
			answer(w, q)
			return
		}
	}
	r.taken = append(r.taken, id)
	w.WriteHeader(http.StatusNoContent)
}

func status(code int) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
}

func batch(ids ...string) (all []*record.Record) {
	for _, id := range ids {
		all = append(all, &record.Record{ID: id})
	}
	return all
}

// TestRepeated: a failed event is posted again under the same id, an accepted one is not, and a
// refused one does not hold up the rest.
func TestRepeated(t *testing.T) {
	r, s := newReceiver(t, nil, status(500), status(503), nil, status(400))
	all := batch("1", "2")
	for range 2 {
		if err := s.Deliver(t.Context(), all); err == nil {
			t.Fatal("a failure was not reported")
		}
	}
	if err := s.Deliver(t.Context(), all); err != nil {
		t.Fatal(err)
	}
	if want := []string{"1a", "1b", "2b"}; !slices.Equal(r.taken, want) || s.Refused() != 1 {
		t.Errorf("%q, %d refused; want %q and one", r.taken, s.Refused(), want)
	}
}

func TestLater(t *testing.T) {
	_, s := newReceiver(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "7")
		w.WriteHeader(http.StatusTooManyRequests)
	})
	err := s.Deliver(t.Context(), batch("1"))
	if later, ok := errors.AsType[*follow.Later](err); !ok || later.In != 7*time.Second {
		t.Errorf("%v, want to wait 7 s", err)
	}
}

// TestRedirect: neither body nor signature goes to another host.
func TestRedirect(t *testing.T) {
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the redirect was followed") }))
	defer other.Close()
	for _, code := range []int{301, 302, 303, 307, 308} {
		_, s := newReceiver(t, func(w http.ResponseWriter, q *http.Request) { http.Redirect(w, q, other.URL, code) })
		if err := s.Deliver(t.Context(), batch("1")); err == nil || !strings.Contains(err.Error(), "redirects are not followed") {
			t.Errorf("%d: %v", code, err)
		}
	}
}

// TestUntrusted: an untrusted certificate ends the request before anything is sent.
func TestUntrusted(t *testing.T) {
	r, s := newReceiver(t)
	s.HTTP = &http.Client{}
	err := s.Deliver(t.Context(), batch("1"))
	if _, untrusted := errors.AsType[x509.UnknownAuthorityError](err); !untrusted || len(r.taken) > 0 {
		t.Errorf("%v, taken %q", err, r.taken)
	}
}
