// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package ui

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"iter"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/dovetail-sh/dovetail/internal/testwait"
	"github.com/dovetail-sh/dovetail/test/e2e/sandbox"
)

var pictures = flag.String("pictures", "", "directory to write a picture of each view to")

// TestPage opens each view of the page of `dovetail ui` about a cluster with nodes, a pending pod and decisions, then the page that the
// controller itself serves, with a token.
func TestPage(t *testing.T) {
	browser := FindChromium()
	if browser == "" {
		t.Skip("skipped: there is no Chromium on this machine; with Debian: apt-get install chromium")
	}
	t.Chdir(filepath.Join("..", "..")) // binaries are found from the repository's root
	ctx := testwait.ContextFor(t, 4*time.Minute)
	port, err := sandbox.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	s, err := sandbox.Up(ctx, filepath.Join(t.TempDir(), "sandbox"), "--boot", "1s", "--pull", "0s", "--controller-arg=--secure-address=127.0.0.1:"+port)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Down(); err != nil {
			t.Error(err)
		}
	}()
	for _, manifest := range []string{"examples/nodepool.yaml", "examples/deployment.yaml"} {
		kubectl(ctx, t, s, "", "apply", "-f", manifest)
	}
	kubectl(ctx, t, s, impossible, "apply", "-f", "-")
	kubectl(ctx, t, s, "", "rollout", "status", "deployment/inflate", "--timeout=2m")
	url, _, stopPage, err := ServePage(ctx, s)
	if err != nil {
		t.Fatal(err)
	}
	defer stopPage()
	ctx, stopBrowser := Browser(ctx, browser)
	defer stopBrowser()
	if err := chromedp.Do(ctx, chromedp.Navigate(url)); err != nil { // the browser lives as long as this context
		t.Fatal(err)
	}
	watched, endWatch := context.WithCancel(ctx)
	console := chromedp.Console(watched)
	for _, view := range []struct {
		name string
		want []string // in the text of the view, as patterns
	}{
		{"overview", []string{`Cost an hour\s+\$0\.\d+`, `CPU requested\s+\d+ %`, `nodepool/default`, `Pending pods\s+1`, `pending pods--`, `Dollars an hour`}},
		{"nodes", []string{`nodepool/default · \d+`, `c\w+\.\w+\s+us-east-1`, `\$0\.\d+`, `kube-system|default`}},
		{"costs", []string{`default\s+\$0\.\d+`, `is not requested by any pod`}},
		{"pending", []string{`default/impossible`, `NodePool default: `, `kube-scheduler: `, `Change: `}},
		{"disruption", []string{`Blocked\s+0`, `Undecided\s+\d+`}},
		{"history", []string{`Cost of nodes\s+\$0\.\d+`, `dovetail savings --since 1h`, `By cause`, `One by one`, `launched`, `nodeclaim/default-`, `pods need it`, `dovetail history --since 1h`}},
		{"doctor", []string{`Least possible`, `Findings · \d+|Doctor found nothing`, `Severity`, `Next`}},
		{"headroom", []string{`There is no Headroom`}},
	} {
		t.Run(view.name, func(t *testing.T) {
			if err := chromedp.Do(ctx, chromedp.Navigate(url+"#"+view.name)); err != nil {
				t.Fatal(err)
			}
			awaitText(ctx, t, view.want)
			checkNames(ctx, t)
			takePicture(ctx, t, view.name)
		})
	}
	t.Run("details", func(t *testing.T) {
		if err := chromedp.Do(ctx, chromedp.Navigate(url+"#pending")); err != nil {
			t.Fatal(err)
		}
		clickOn(ctx, t, `//a[text()="default/impossible"]`)
		awaitText(ctx, t, []string{`pod/default/impossible`, `nodeSelector`})
		takePicture(ctx, t, "details")
	})
	t.Run("address", func(t *testing.T) { // of a filter, an order and an open object
		err := chromedp.Do(ctx, chromedp.Navigate(url+"#history?filter=pod%2Fdefault%2Fimpossible&sort=-What&open=pod%2Fdefault%2Fimpossible"))
		if err != nil {
			t.Fatal(err)
		}
		awaitText(ctx, t, []string{`What ↓`, `dovetail why pod/default/impossible`, `nodeSelector`})
	})
	t.Run("copy", func(t *testing.T) { // the command of a reason
		if err := chromedp.Do(ctx, chromedp.Navigate(url+"#pending")); err != nil {
			t.Fatal(err)
		}
		clickOn(ctx, t, `//article//code[text()="dovetail why pod/default/impossible"]/following-sibling::button`)
		awaitText(ctx, t, []string{`dovetail why pod/default/impossible\s+Copied`})
	})
	t.Run("keyboard", func(t *testing.T) { checkKeyboard(ctx, t, url) })
	t.Run("every control by keyboard", func(t *testing.T) { checkEveryControl(ctx, t, url) })
	t.Run("phone", func(t *testing.T) { checkPhone(ctx, t, url) })
	t.Run("what-if", func(t *testing.T) {
		err := chromedp.Do(ctx, chromedp.Navigate(url+"#what-if"), chromedp.WaitVisible("#manifests"), chromedp.SetValue("#manifests", larger),
			chromedp.Evaluate[chromedp.Void](`document.getElementById("manifests").dispatchEvent(new Event("input"))`),
			chromedp.Click(`//button[text()="Plan"]`))
		if err != nil {
			t.Fatal(err)
		}
		awaitText(ctx, t, []string{`To launch: \d+ nodes?`, `Minimum\s+\$`})
		takePicture(ctx, t, "what-if")
	})
	endWatch()
	checkConsole(t, console)
	t.Run("controller", func(t *testing.T) { checkControllerPage(ctx, t, s, "https://127.0.0.1:"+port+"/ui/") })
}

// unnamed is what a screen reader would announce without a name: links, buttons, fields and tables.
const unnamed = `[...document.querySelectorAll("a, button, input, select, textarea, table")].filter((e) => e.checkVisibility() &&
  !(e.getAttribute("aria-label") || e.labels?.length || e.querySelector("caption")?.textContent || (e.tagName !== "TABLE" && e.textContent.trim()))).map((e) => e.outerHTML.slice(0, 80)).join("\n")`

// checkNames checks that all of a view has a name for a screen reader.
func checkNames(ctx context.Context, t *testing.T) {
	t.Helper()
	list, err := chromedp.Run(ctx, chromedp.Evaluate[string](unnamed))
	if err != nil {
		t.Fatal(err)
	}
	if list != "" {
		t.Errorf("without a name:\n%s", list)
	}
}

// checkKeyboard goes to a view by the keyboard alone: the first Tab reaches the link to the content, which keeps the view; what has the focus is
// outlined, and the content as a whole is not.
func checkKeyboard(ctx context.Context, t *testing.T, url string) {
	if err := chromedp.Do(ctx, chromedp.Navigate("about:blank"), chromedp.Navigate(url+"#costs")); err != nil { // nothing has the focus yet
		t.Fatal(err)
	}
	awaitText(ctx, t, []string{`Cost by requests`})
	focused := func() string {
		text, err := chromedp.Run(ctx, chromedp.Evaluate[string](`(() => { const e = document.activeElement; return e.textContent.slice(0, 40) + " " + getComputedStyle(e).outlineStyle; })()`))
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	if err := chromedp.Do(ctx, chromedp.KeyEvent(kb.Tab)); err != nil {
		t.Fatal(err)
	}
	if got := focused(); got != "Skip to the content solid" {
		t.Errorf("after the first Tab %q has the focus, want the link to the content, outlined", got)
	}
	if err := chromedp.Do(ctx, chromedp.KeyEvent(kb.Enter)); err != nil {
		t.Fatal(err)
	}
	at, err := chromedp.Run(ctx, chromedp.Evaluate[string](`document.activeElement.id + " " + location.hash`))
	if err != nil {
		t.Fatal(err)
	}
	if at != "main #costs" {
		t.Errorf("after 'Skip to the content' the focus and the view are %q, want the content of the same view", at)
	}
	if err := chromedp.Do(ctx, chromedp.Navigate("about:blank"), chromedp.Navigate(url+"#overview")); err != nil {
		t.Fatal(err)
	}
	awaitText(ctx, t, []string{`Cost an hour`})
	for range 5 { // the link to the content, then that of the fourth view
		if err := chromedp.Do(ctx, chromedp.KeyEvent(kb.Tab)); err != nil {
			t.Fatal(err)
		}
	}
	if err := chromedp.Do(ctx, chromedp.KeyEvent(kb.Enter)); err != nil {
		t.Fatal(err)
	}
	awaitText(ctx, t, []string{`Cost by requests`})
	outline, err := chromedp.Run(ctx, chromedp.Evaluate[string](`document.activeElement.id + " " + getComputedStyle(document.getElementById("main")).outlineStyle`))
	if err != nil {
		t.Fatal(err)
	}
	if outline != "main none" {
		t.Errorf("after a view was chosen the focus and the outline of the content are %q, want main without an outline", outline)
	}
}

// controls lists what can have the focus in the page, or in the dialog if it is open, by kind and name.
const controls = `[...(document.querySelector("dialog[open]") ?? document).querySelectorAll("a[href], button, input, select, textarea")].filter((e) => e.checkVisibility() && !e.disabled).map((e) =>
  e.tagName + " " + (e.getAttribute("aria-label") ?? e.labels?.[0]?.textContent ?? e.textContent).slice(0, 60))`

// focus is the control that has the focus, as in controls, and whether it is outlined; BODY if none has it.
const focus = `(() => { const e = document.activeElement, s = getComputedStyle(e); return [e.tagName + " " + (e === document.body ? "" : (e.getAttribute("aria-label") ?? e.labels?.[0]?.textContent ?? e.textContent).slice(0, 60)),
  s.outlineStyle !== "none" && parseFloat(s.outlineWidth) >= 1 ? "outlined" : "not outlined"]; })()`

// checkEveryControl opens each view by Tab and Enter, and goes through it by Tab: the focus reaches each control once around, is always visible, and is not
// trapped. Redrawing takes it from no link of the header, of a view or of the dialog. Enter opens an object, and Escape closes it and gives the focus back.
func checkEveryControl(ctx context.Context, t *testing.T, url string) {
	press := func(key string) {
		t.Helper()
		if err := chromedp.Do(ctx, chromedp.KeyEvent(key)); err != nil {
			t.Fatal(err)
		}
	}
	list := func(expression string) []string {
		t.Helper()
		out, err := chromedp.Run(ctx, chromedp.Evaluate[[]string](expression))
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	// around presses Tab until the focus is at a control again at which it was, and returns those that it has not reached. until ends it before.
	around := func(until string) (missed []string) {
		t.Helper()
		want := list(controls)
		seen := map[string]bool{}
		for range 2*len(want) + 20 {
			press(kb.Tab)
			at := list(focus)
			if strings.HasPrefix(at[0], "BODY") {
				continue // past the last control
			}
			seen[at[0]] = true
			if at[1] != "outlined" {
				t.Errorf("%q has the focus, %s", at[0], at[1])
			}
			if until != "" && isSame(at[0], until) {
				return nil
			}
		}
		still := list(controls) // what is gone by now can't be reached
		for _, c := range want {
			if !seen[c] && slices.Contains(still, c) {
				missed = append(missed, c)
			}
		}
		return missed
	}
	until := func(what string, check func() error) {
		t.Helper()
		err := testwait.Poll(ctx, testwait.Left(t, testwait.Limit), 100*time.Millisecond, func(context.Context) error { return check() })
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	// keepsFocus waits until the page is drawn again, and checks that control still has the focus.
	keepsFocus := func(control string) {
		t.Helper()
		list(`(document.querySelector("#nav a").dataset.before = "", [])`)
		until("the page is drawn again", func() error {
			if len(list(`[...document.querySelectorAll("[data-before]")].map((e) => e.tagName)`)) > 0 {
				return errors.New("the link to the first view is still the same element")
			}
			return nil
		})
		if at := list(focus)[0]; !isSame(at, control) {
			t.Errorf("after the page was drawn again %q has the focus, want %q", at, control)
		}
	}
	if err := chromedp.Do(ctx, chromedp.Navigate("about:blank"), chromedp.Navigate(url+"#overview")); err != nil {
		t.Fatal(err)
	}
	awaitText(ctx, t, []string{`Cost an hour`})
	for _, view := range []struct{ title, text string }{{"Costs", `Cost by requests`}, {"Pending pods", `Change: `}, {"History", `By cause`}, {"Doctor", `Least possible`}, {"What if", `Manifests`},
		{"Disruption", `Undecided`}, {"Overview", `Cost an hour`}, {"Nodes", `us-east-1`}} {
		around("A " + view.title)
		if at := list(focus)[0]; at != "A "+view.title {
			t.Fatalf("Tab reaches %q, not the view %s", at, view.title)
		}
		keepsFocus("A " + view.title)
		press(kb.Enter)
		awaitText(ctx, t, []string{view.text})
		if missed := around(""); len(missed) > 0 {
			t.Errorf("%s: Tab does not reach %q", view.title, missed)
		}
	}
	node := ""
	for _, c := range list(controls) {
		if strings.HasPrefix(c, "A ip-") {
			node = c
			break
		}
	}
	around(node)
	keepsFocus(node)
	press(kb.Enter)
	awaitText(ctx, t, []string{`dovetail why node`})
	if missed := around(""); len(missed) > 0 {
		t.Errorf("the dialog: Tab does not reach %q", missed)
	}
	around("BUTTON Close")
	keepsFocus("BUTTON Close")
	press(kb.Escape)
	until("after Escape", func() error {
		if at := list(focus)[0]; !isSame(at, node) {
			return fmt.Errorf("%q has the focus, want %q", at, node)
		}
		return nil
	})
}

// isSame reports whether two names are those of one control. That of a node ends with figures that change.
func isSame(a, b string) bool {
	a, _, _ = strings.Cut(a, " · ")
	b, _, _ = strings.Cut(b, " · ")
	return a == b
}

// clickOn clicks on what an XPath finds, in one step of the page: an element that was found may be replaced before it is clicked.
func clickOn(ctx context.Context, t *testing.T, path string) {
	t.Helper()
	script := fmt.Sprintf(`(() => { const e = document.evaluate(%q, document, null, XPathResult.FIRST_ORDERED_NODE_TYPE).singleNodeValue; e?.click(); return e !== null; })()`, path)
	err := testwait.Poll(ctx, testwait.Left(t, testwait.Limit), 100*time.Millisecond, func(context.Context) error {
		found, err := chromedp.Run(ctx, chromedp.Evaluate[bool](script))
		if err == nil && !found {
			err = fmt.Errorf("the page does not have %s", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// checkPhone shows each view 390 pixels wide: nothing is cut off at the right, and only tables, maps and commands may be scrolled sideways.
func checkPhone(ctx context.Context, t *testing.T, url string) {
	defer func() {
		if err := chromedp.Do(ctx, chromedp.EmulateViewport(1280, 900)); err != nil {
			t.Error(err)
		}
	}()
	if err := chromedp.Do(ctx, chromedp.EmulateViewport(390, 844)); err != nil {
		t.Fatal(err)
	}
	for view, want := range map[string]string{"overview": `nodepool/default`, "nodes": `us-east-1`, "costs": `is not requested`, "pending": `Change: `, "history": `launched`, "disruption": `Undecided`,
		"doctor": `Least possible`, "what-if": `Manifests`} {
		if err := chromedp.Do(ctx, chromedp.Navigate(url+"#"+view)); err != nil {
			t.Fatal(err)
		}
		awaitText(ctx, t, []string{want})
		wide, err := chromedp.Run(ctx, chromedp.Evaluate[string](`[...document.querySelectorAll("body *")].filter((e) => !e.closest(".scroll, .skip, .u-legend, dialog") &&
			e.getBoundingClientRect().right > innerWidth + 1).map((e) => e.tagName + "." + e.className + ": " + e.textContent.slice(0, 40)).join("\n") +
			(document.documentElement.scrollWidth > innerWidth ? "\nthe page is " + document.documentElement.scrollWidth + " wide" : "")`))
		if err != nil {
			t.Fatal(err)
		}
		if wide != "" {
			t.Errorf("%s: cut off at 390 pixels: %s", view, wide)
		}
		takePicture(ctx, t, "phone-"+view)
	}
}

// checkControllerPage signs in to the page of the controller, over TLS, with a token as docs/SECURITY.md says, and opens its views.
func checkControllerPage(ctx context.Context, t *testing.T, s *sandbox.Sandbox, url string) {
	token := strings.TrimSpace(kubectl(ctx, t, s, "", "-n", "dovetail-system", "create", "token", "dovetail-viewer", "--audience", "dovetail.sh"))
	signIn := func(token string) {
		err := chromedp.Do(ctx, chromedp.WaitVisible("#token"), chromedp.SetValue("#token", token), chromedp.Click(`//button[text()="Sign in"]`))
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := chromedp.Do(ctx, chromedp.Navigate(url)); err != nil {
		t.Fatal(err)
	}
	awaitText(ctx, t, []string{`create token dovetail-viewer --audience dovetail\.sh`})
	signIn("guessed")
	awaitText(ctx, t, []string{`the token is invalid`})
	signIn(token)
	awaitText(ctx, t, []string{`Cost an hour\s+\$0\.\d+`}) // what the console said so far is that the page was refused
	watched, endWatch := context.WithCancel(ctx)
	console := chromedp.Console(watched)
	for _, view := range []struct {
		name string
		want []string
	}{
		{"overview", []string{`Cost an hour\s+\$0\.\d+`, `nodepool/default`, `Pending pods\s+1`}},
		{"nodes", []string{`nodepool/default · \d+`, `\$0\.\d+`}},
		{"pending", []string{`default/impossible`}},
		{"history", []string{`Cost of nodes\s+\$0\.\d+`, `dovetail savings --since 1h`, `By cause`, `launched`, `pods need it`, `nodeclaim/default-`}},
	} {
		if err := chromedp.Do(ctx, chromedp.Navigate(url+"#"+view.name)); err != nil {
			t.Fatal(err)
		}
		awaitText(ctx, t, view.want)
		takePicture(ctx, t, "controller-"+view.name)
	}
	endWatch()
	checkConsole(t, console)
}

// checkConsole fails where the browser's console has said anything.
func checkConsole(t *testing.T, console iter.Seq2[chromedp.ConsoleMessage, error]) {
	t.Helper()
	for message, err := range console {
		if err != nil {
			break // it has ended
		}
		t.Errorf("the browser's console says: %s", message)
	}
}

const impossible = `
apiVersion: v1
kind: Pod
metadata: {name: impossible}
spec:
  nodeSelector: {topology.kubernetes.io/zone: nowhere-1a}
  containers: [{name: pause, image: registry.k8s.io/pause:3.10, resources: {requests: {cpu: "1"}}}]
`

const larger = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: larger}
spec:
  replicas: 20
  selector: {matchLabels: {app: larger}}
  template:
    metadata: {labels: {app: larger}}
    spec: {containers: [{name: pause, image: registry.k8s.io/pause:3.10, resources: {requests: {cpu: "1", memory: 2Gi}}}]}
`

func kubectl(ctx context.Context, t *testing.T, s *sandbox.Sandbox, in string, args ...string) string {
	t.Helper()
	bin, _, err := sandbox.Binaries()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(ctx, bin, append([]string{"--dir", s.Dir, "kubectl"}, args...)...)
	cmd.Stdin = strings.NewReader(in)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// awaitText returns when what the page shows matches every pattern.
func awaitText(ctx context.Context, t *testing.T, patterns []string) {
	t.Helper()
	err := testwait.Poll(ctx, testwait.Left(t, testwait.Limit), 100*time.Millisecond, func(ctx context.Context) error {
		text, err := chromedp.Run(ctx, chromedp.Evaluate[string](`document.body?.innerText ?? ""`)) // there is none between two pages
		if err != nil {
			return err
		}
		for _, p := range patterns {
			if !regexp.MustCompile(p).MatchString(text) {
				return fmt.Errorf("the page does not show %q; it shows\n%s", p, text)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// takePicture writes a picture of what is shown, where the flag asks for it.
func takePicture(ctx context.Context, t *testing.T, name string) {
	if *pictures == "" {
		return
	}
	png, err := chromedp.Run(ctx, chromedp.CaptureScreenshot())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(*pictures, name+".png"), png, 0o644); err != nil {
		t.Fatal(err)
	}
}
