package html

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lineage-ebpf/lineage/internal/require"
)

// chromium is a browser, driven by the DevTools protocol over a pipe.
type chromium struct {
	t       *testing.T
	in      *os.File
	dir     string
	pages   int
	session string

	mu      sync.Mutex
	last    int
	replies map[int]chan message
	events  []message // of the page, since it was opened
	changed chan struct{}
}

// message is a request, a reply or an event of the protocol.
type message struct {
	ID        int                       `json:"id,omitempty"`
	SessionID string                    `json:"sessionId,omitempty"`
	Method    string                    `json:"method,omitempty"`
	Params    json.RawMessage           `json:"params,omitempty"`
	Result    json.RawMessage           `json:"result,omitempty"`
	Error     *struct{ Message string } `json:"error,omitempty"`
}

// browse starts Chromium with one empty page, and ends it with the test.
func browse(t *testing.T) *chromium {
	t.Helper()
	if os.Getenv("LNGTEST_BROWSER") == "" {
		t.Skip("make test-pictures runs it")
	}
	path, err := exec.LookPath("chromium")
	require.NoError(t, err)
	toBrowser, in, err := os.Pipe()
	require.NoError(t, err)
	out, fromBrowser, err := os.Pipe()
	require.NoError(t, err)
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), path, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-quic", "--no-first-run",
		"--disable-background-networking", "--disable-component-update", "--disable-sync", "--remote-debugging-pipe",
		"--user-data-dir="+filepath.Join(dir, "profile"), "about:blank")
	cmd.ExtraFiles = []*os.File{toBrowser, fromBrowser}
	require.NoError(t, cmd.Start(), toBrowser.Close(), fromBrowser.Close())
	c := &chromium{t: t, in: in, dir: dir, replies: make(map[int]chan message), changed: make(chan struct{}, 1)}
	read := make(chan struct{})
	go c.read(out, read)
	t.Cleanup(func() {
		c.send("Browser.close", nil)
		_ = cmd.Wait()
		<-read
		in.Close()
		// Its helpers may still write for a moment.
		require.Eventually(t, "the profile is removed", func() bool { return os.RemoveAll(filepath.Join(dir, "profile")) == nil })
	})
	var made struct{ TargetID string }
	c.call("Target.createTarget", map[string]any{"url": "about:blank"}, &made)
	var attached struct{ SessionID string }
	c.call("Target.attachToTarget", map[string]any{"targetId": made.TargetID, "flatten": true}, &attached)
	c.session = attached.SessionID
	for _, domain := range []string{"Page", "Runtime", "Network", "Debugger", "Log"} {
		c.call(domain+".enable", nil, nil)
	}
	c.open("<p>") // the next page is in the same process, whose events are complete
	return c
}

// read takes messages, which end with a NUL.
func (c *chromium) read(out io.ReadCloser, done chan<- struct{}) {
	defer close(done)
	defer out.Close()
	var pending []byte
	buf := make([]byte, 1<<20)
	for {
		n, err := out.Read(buf)
		pending = append(pending, buf[:n]...)
		for {
			end := bytes.IndexByte(pending, 0)
			if end < 0 {
				break
			}
			var m message
			if json.Unmarshal(pending[:end], &m) == nil {
				c.take(m)
			}
			pending = pending[end+1:]
		}
		if err != nil {
			return
		}
	}
}

func (c *chromium) take(m message) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if reply := c.replies[m.ID]; m.ID != 0 && reply != nil {
		delete(c.replies, m.ID)
		reply <- m
		return
	}
	c.events = append(c.events, m)
	select {
	case c.changed <- struct{}{}:
	default:
	}
}

// send sends a request, and returns where the reply comes.
func (c *chromium) send(method string, params any) <-chan message {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last++
	reply := make(chan message, 1)
	c.replies[c.last] = reply
	raw, _ := json.Marshal(params)
	line, _ := json.Marshal(message{ID: c.last, SessionID: c.session, Method: method, Params: raw})
	_, _ = c.in.Write(append(line, 0)) // without a browser no reply comes
	return reply
}

func (c *chromium) call(method string, params, result any) {
	c.t.Helper()
	if params == nil {
		params = struct{}{}
	}
	m := require.Soon(c.t, c.send(method, params), "no reply to "+method)
	if m.Error != nil {
		c.t.Fatalf("%s: %s", method, m.Error.Message)
	}
	if result != nil {
		require.NoError(c.t, json.Unmarshal(m.Result, result))
	}
}

// has are the events of a kind since the page was opened.
func (c *chromium) has(method string) (all []json.RawMessage) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range c.events {
		if m.Method == method {
			all = append(all, m.Params)
		}
	}
	return all
}

// open opens a page, and waits until it is loaded. It returns its address.
func (c *chromium) open(page string) string {
	c.t.Helper()
	c.pages++
	file := filepath.Join(c.dir, fmt.Sprintf("page%d.html", c.pages))
	require.NoError(c.t, os.WriteFile(file, []byte(page), 0o600))
	c.mu.Lock()
	c.events = nil
	c.mu.Unlock()
	c.call("Page.navigate", map[string]any{"url": "file://" + file}, nil)
	late := time.After(time.Minute)
	for {
		for _, raw := range c.has("Page.frameNavigated") {
			if bytes.Contains(raw, []byte(file)) && len(c.has("Page.loadEventFired")) > 0 {
				return "file://" + file
			}
		}
		select {
		case <-c.changed:
		case <-late:
			c.t.Fatal("the page is not loaded")
		}
	}
}

// eval is what an expression gives in the page, as text.
func (c *chromium) eval(expression string) string {
	c.t.Helper()
	var r struct {
		Result           struct{ Value any }
		ExceptionDetails any
	}
	c.call("Runtime.evaluate", map[string]any{"expression": expression, "returnByValue": true, "awaitPromise": true}, &r)
	if r.ExceptionDetails != nil {
		c.t.Fatalf("%s: %v", expression, r.ExceptionDetails)
	}
	return fmt.Sprint(r.Result.Value)
}

// scripts are the scripts of the page that Chromium compiled, by their first bytes.
func (c *chromium) scripts(url string) (all []string) {
	c.t.Helper()
	for _, raw := range c.has("Debugger.scriptParsed") {
		var parsed struct{ ScriptID, URL string }
		require.NoError(c.t, json.Unmarshal(raw, &parsed))
		if parsed.URL == "" {
			continue // of eval above
		}
		var source struct{ ScriptSource string }
		c.call("Debugger.getScriptSource", map[string]any{"scriptId": parsed.ScriptID}, &source)
		all = append(all, source.ScriptSource)
	}
	return all
}

// pdf prints the page, and returns the text without blanks.
func (c *chromium) pdf() string {
	c.t.Helper()
	var printed struct{ Data string }
	c.call("Page.printToPDF", map[string]any{"printBackground": true}, &printed)
	data, err := base64.StdEncoding.DecodeString(printed.Data)
	require.NoError(c.t, err)
	file := filepath.Join(c.dir, "page.pdf")
	require.NoError(c.t, os.WriteFile(file, data, 0o600))
	text, err := exec.Command("pdftotext", "-raw", file, "-").Output()
	require.NoError(c.t, err)
	return dense(string(text))
}

func dense(text string) string { return strings.Join(strings.Fields(text), "") }

// shoot keeps a picture of the page, if LNGTEST_PAGE names a folder.
func (c *chromium) shoot(name string) {
	c.t.Helper()
	dir := os.Getenv("LNGTEST_PAGE")
	if dir == "" {
		return
	}
	var shot struct{ Data string }
	c.call("Page.captureScreenshot", map[string]any{"captureBeyondViewport": true}, &shot)
	data, err := base64.StdEncoding.DecodeString(shot.Data)
	require.NoError(c.t, err, os.WriteFile(filepath.Join(dir, name+".png"), data, 0o644))
}

// TestScripts: of twenty hostile sessions no script runs but ours, nothing is requested, and no element
// could do either.
func TestScripts(t *testing.T) {
	c := browse(t)
	check := func(t *testing.T, page string) (problems []string) {
		t.Helper()
		url := c.open(page)
		if ran := c.scripts(url); !slices.Equal(ran, []string{script}) {
			problems = append(problems, fmt.Sprintf("%d scripts: %.200q", len(ran), ran))
		}
		for _, raw := range c.has("Network.requestWillBeSent") {
			var r struct{ Request struct{ URL string } }
			require.NoError(t, json.Unmarshal(raw, &r))
			if r.Request.URL != url {
				problems = append(problems, "requested "+r.Request.URL)
			}
		}
		if got := c.eval(`document.querySelectorAll("iframe, frame, img, form, base, link, object, embed, video, audio, math, foreignObject, use, animate, set").length +
			[...document.querySelectorAll("*")].filter(e => e.getAttributeNames().some(n => n.startsWith("on") || n === "style" || n === "srcdoc")).length`); got != "0" {
			problems = append(problems, got+" elements that have no place here")
		}
		if got := c.eval(`[...document.querySelectorAll("a")].filter(a => !/^#[a-z0-9]+$/.test(a.getAttribute("href"))).length`); got != "0" {
			problems = append(problems, got+" links that leave the page")
		}
		for _, raw := range slices.Concat(c.has("Log.entryAdded"), c.has("Runtime.exceptionThrown")) {
			problems = append(problems, string(raw))
		}
		return problems
	}
	for i, text := range hostile {
		s, r := agent(text)
		page := written(t, s, r)
		if problems := check(t, page); problems != nil {
			t.Errorf("%.60q: %q", text, problems)
		}
		if title := c.eval("document.title"); !strings.HasPrefix(title, "lineage: session agent") {
			t.Errorf("%.60q: the title is %.100q", text, title)
		}
		if i == 0 {
			c.shoot("hostile")
		}
	}
	// What would be seen, if there were a hole: with the policy the script does not run, without it does.
	s, r := agent("")
	page := strings.Replace(written(t, s, r), "<main>", `<main><script>document.title="canary"</script><img src=x onerror="document.title='canary'">`, 1)
	if problems := check(t, page); problems == nil || c.eval("document.title") == "canary" {
		t.Errorf("behind the policy: %q, title %s", problems, c.eval("document.title"))
	}
	page = strings.Replace(page, "Content-Security-Policy", "x", 1)
	if problems := check(t, page); problems == nil || c.eval("document.title") != "canary" {
		t.Errorf("without the policy: %q, title %s", problems, c.eval("document.title"))
	}
}

// TestFind: the search shows the lines that have all words, with what is above them, and without
// words the tree is as it was. The buttons fold and unfold.
func TestFind(t *testing.T) {
	c := browse(t)
	s, r := agent("")
	c.open(written(t, s, r))
	const visible = `[...document.querySelectorAll("#tree li")].filter(e => e.checkVisibility()).map(e => e.querySelector("b").textContent).join(" ")`
	find := func(words string) string {
		return c.eval(fmt.Sprintf(`new Promise(done => {
			const find = document.getElementById("find");
			find.value = %q;
			find.dispatchEvent(new Event("input"));
			setTimeout(() => done(%s + ", " + document.getElementById("found").textContent), 400);
		})`, words, visible))
	}
	before := c.eval(visible)
	require.Equal(t, find("VITE 5173"), "100 101 102, 1 line")
	require.Equal(t, find("215"), "100 103 ×30, 1 line")
	require.Equal(t, find("nosuch"), ", 0 lines")
	require.Equal(t, find(""), before+", ")
	c.eval(`document.getElementById("fold").click()`)
	require.Equal(t, c.eval(visible), "100")
	c.eval(`document.getElementById("unfold").click()`)
	require.Equal(t, c.eval(visible), before)
}

func allIn(text string, words []string) bool {
	return !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(text, w) })
}

// TestFacts: without scripts, dark and light, each fact of a receipt is on the screen and in print,
// also those that are folded.
func TestFacts(t *testing.T) {
	c := browse(t)
	c.call("Emulation.setScriptExecutionDisabled", map[string]any{"value": true}, nil)
	s, _ := agent("")
	r, facts := everything(s)
	page := written(t, s, r)
	for _, scheme := range []string{"dark", "light"} {
		c.call("Emulation.setEmulatedMedia", map[string]any{"media": "", "features": []any{map[string]any{"name": "prefers-color-scheme", "value": scheme}}}, nil)
		c.open(page)
		if ran := c.scripts(""); len(ran) > 0 {
			t.Errorf("scripts ran: %.100q", ran)
		}
		if got, want := c.eval(`getComputedStyle(document.body).backgroundColor`), map[string]string{"dark": "rgb(15, 19, 24)",
			"light": "rgb(255, 255, 255)"}[scheme]; got != want {
			t.Errorf("%s: the background is %s", scheme, got)
		}
		screen, print := dense(c.eval(`document.getElementById("receipt").textContent+document.querySelector("header").textContent`)), c.pdf()
		for _, fact := range facts {
			require.Contains(t, screen, dense(fact))
			// A table may be cut between two words by the head of the next page, so words count.
			if !strings.Contains(print, dense(fact)) && !allIn(print, strings.Fields(fact)) {
				t.Errorf("%s: %q is not in print", scheme, fact)
			}
		}
		if !strings.Contains(print, "src/part12.c") || !strings.Contains(print, "229") {
			t.Errorf("%s: the tree is folded in print", scheme)
		}
		c.shoot("facts-" + scheme)
	}
}
