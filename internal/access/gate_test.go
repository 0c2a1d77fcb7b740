// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package access

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// reviewer is an API server that knows two tokens; it counts what it is asked.
type reviewer struct {
	mu                      sync.Mutex
	tokens, rights, at, top int
	down                    bool
}

func (r *reviewer) enter(count *int) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	*count++
	r.at++
	r.top = max(r.top, r.at)
	if r.down {
		return errors.New("connection refused")
	}
	return nil
}

func (r *reviewer) leave() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.at--
}

func (r *reviewer) ReviewToken(_ context.Context, token string) (User, bool, error) {
	defer r.leave()
	if err := r.enter(&r.tokens); err != nil {
		return User{}, false, err
	}
	name, ok := strings.CutPrefix(token, "token-of-")
	return User{Name: name}, ok, nil
}

func (r *reviewer) ReviewAccess(_ context.Context, u User, verb, path string) (bool, error) {
	defer r.leave()
	if err := r.enter(&r.rights); err != nil {
		return false, err
	}
	return u.Name == "viewer" && verb == "get" || u.Name == "system:serviceaccount:shop:dev" && strings.HasPrefix(path, "/why/pod/shop/"), nil
}

func ask(h http.Handler, method, path string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, nil)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

var secret = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "why "+r.URL.Path) })

func TestGate(t *testing.T) {
	gate := NewGate(&reviewer{}, "dovetail-system", time.Now).Protect(secret)
	for _, c := range []struct {
		name, method, path, header, value string
		status                            int
		want                              string
	}{
		{"no token", "GET", "/why/node/a", "X", "", 401, "create token dovetail-viewer --audience dovetail.sh"},
		{"another scheme", "GET", "/why/node/a", "Authorization", "Basic dG9rZW4=", 401, "a bearer token is required"},
		{"wrong token", "GET", "/why/node/a", "Authorization", "Bearer guessed", 401, "the token is invalid"},
		{"a token without end", "GET", "/why/node/a", "Authorization", "Bearer " + strings.Repeat("a", mostToken+1), 401, "at most 8192 are read"},
		{"right token", "GET", "/why/node/a", "Authorization", "bearer token-of-viewer", 200, "why /why/node/a"},
		{"right token in the cookie", "GET", "/ui/", "Cookie", cookieName + "=token-of-viewer", 200, "why /ui/"},
		{"right token, no role", "GET", "/why/node/a", "Authorization", "Bearer token-of-nobody", 403, "--clusterrole=dovetail-viewer --user=nobody"},
		{"right token, another verb", "POST", "/ui/api/plan", "Authorization", "Bearer token-of-viewer", 403, "viewer may not post /ui/api/plan"},
		{"a role for one namespace", "GET", "/why/pod/shop/cart", "Authorization", "Bearer token-of-system:serviceaccount:shop:dev", 200, "cart"},
		{"beside its namespace", "GET", "/why/pod/bank/vault", "Authorization", "Bearer token-of-system:serviceaccount:shop:dev", 403, "--serviceaccount=shop:dev"},
	} {
		w := ask(gate, c.method, c.path, c.header, c.value)
		if w.Code != c.status || !strings.Contains(w.Body.String(), c.want) {
			t.Errorf("%s: %d %q, want %d with %q", c.name, w.Code, w.Body, c.status, c.want)
		}
		if (w.Code == 401) != (w.Header().Get("WWW-Authenticate") != "") || w.Header().Get("Cache-Control") != "no-store" {
			t.Errorf("%s: headers %v", c.name, w.Header())
		}
		if w.Code != 200 && strings.Contains(w.Body.String(), "why /") {
			t.Errorf("%s: refused, and answered all the same", c.name)
		}
	}
}

// A review is remembered for a while, and no longer; what the API server has not answered is not remembered.
func TestReviewsAreRemembered(t *testing.T) {
	now := time.Unix(0, 0)
	api := &reviewer{}
	gate := NewGate(api, "dovetail-system", func() time.Time { return now }).Protect(secret)
	get := func(token string) int {
		return ask(gate, "GET", "/ledger", "Authorization", "Bearer "+token).Code
	}
	want := func(step string, tokens, rights int) {
		t.Helper()
		if api.tokens != tokens || api.rights != rights {
			t.Errorf("%s: %d token and %d access reviews, want %d and %d", step, api.tokens, api.rights, tokens, rights)
		}
	}
	api.down = true
	if code := get("token-of-viewer"); code != 503 {
		t.Errorf("without an API server: %d, want 503", code)
	}
	api.down, api.tokens = false, 0
	for range 10 {
		get("token-of-viewer")
		get("guessed")
	}
	want("at once", 2, 1)
	now = now.Add(refusedFor)
	get("token-of-viewer")
	get("guessed")
	want("after a refusal's time", 3, 1)
	now = now.Add(allowedFor)
	get("token-of-viewer")
	want("after its time", 4, 2)
}

// Whoever sends ever new tokens neither fills the memory nor asks more than a few reviews at once.
func TestReviewsAreBounded(t *testing.T) {
	api := &reviewer{}
	gate := NewGate(api, "dovetail-system", time.Now)
	h := gate.Protect(secret)
	var wg sync.WaitGroup
	for i := range 3 * mostReviews {
		wg.Go(func() { ask(h, "GET", "/ledger", "Authorization", fmt.Sprint("Bearer guess", i)) })
	}
	wg.Wait()
	if n := len(gate.users.kept); n > mostReviews || n == 0 {
		t.Errorf("%d reviews are remembered, want at most %d", n, mostReviews)
	}
	if api.top > reviewsAtOnce || api.tokens != 3*mostReviews {
		t.Errorf("%d reviews, %d at once; want %d, at most %d", api.tokens, api.top, 3*mostReviews, reviewsAtOnce)
	}
}

func TestSignIn(t *testing.T) {
	gate := NewGate(&reviewer{}, "dovetail-system", time.Now)
	page := ask(gate.Protect(secret), "GET", "/ui/", "Accept", "text/html,*/*")
	if page.Code != 401 || !strings.Contains(page.Body.String(), `<form method="post" action="`+SignInPath+`">`) || !strings.Contains(page.Header().Get("Content-Security-Policy"), "default-src 'none'") {
		t.Errorf("a browser without a token gets %d %v\n%s", page.Code, page.Header(), page.Body)
	}
	send := func(token, site string) *httptest.ResponseRecorder {
		r := httptest.NewRequest("POST", SignInPath, strings.NewReader(url.Values{"token": {token}}.Encode()))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Sec-Fetch-Site", site)
		w := httptest.NewRecorder()
		gate.SignIn("/ui/").ServeHTTP(w, r)
		return w
	}
	in := send(" token-of-viewer\n", "same-origin")
	cookies := in.Result().Cookies()
	if in.Code != 303 || in.Header().Get("Location") != "/ui/" || len(cookies) != 1 {
		t.Fatalf("sign-in: %d %v, want to be sent to the page with a cookie", in.Code, in.Header())
	}
	if c := cookies[0]; !c.Secure || !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Path != "/" || c.Value != "token-of-viewer" {
		t.Errorf("the cookie is %v", c)
	}
	for _, c := range []struct {
		token, site string
		status      int
	}{{"guessed", "same-origin", 401}, {"token-of-nobody", "same-origin", 403}, {"", "none", 401}, {"token-of-viewer", "cross-site", 403}} {
		if w := send(c.token, c.site); w.Code != c.status || len(w.Result().Cookies()) > 0 {
			t.Errorf("sign-in with %q from %s: %d with %d cookies, want %d and none", c.token, c.site, w.Code, len(w.Result().Cookies()), c.status)
		}
	}
	if w := send("<script>", "same-origin"); strings.Contains(w.Body.String(), "<script>") {
		t.Error("the page repeats what was entered")
	}
}

func TestSparing(t *testing.T) {
	now := time.Unix(0, 0)
	asked := 0
	h := Sparing(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked++
		if r.URL.Path == "/none" {
			http.Error(w, "there is none", 404)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, asked)
	}), func() time.Time { return now })
	for _, c := range []struct {
		path string
		want string
	}{{"/a", "200 1"}, {"/a", "200 1"}, {"/a?b", "200 2"}, {"/none", "404 there is none\n"}, {"/none", "404 there is none\n"}} {
		w := ask(h, "GET", c.path)
		if got := fmt.Sprint(w.Code, " ", w.Body); got != c.want {
			t.Errorf("%s: %q, want %q", c.path, got, c.want)
		}
	}
	if asked != 4 {
		t.Errorf("%d answers were worked out, want 4", asked)
	}
	now = now.Add(answerFor)
	if w := ask(h, "GET", "/a"); w.Body.String() != "5" || w.Header().Get("Content-Type") != "application/json" {
		t.Errorf("after its time: %q %v", w.Body, w.Header())
	}
}

// What everyone reads slowly is bounded in sum.
func TestSparingBoundsUnsentBytes(t *testing.T) {
	large := make([]byte, 20<<20)
	synctest.Test(t, func(t *testing.T) {
		h := Sparing(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(large) }), time.Now)
		release := make(chan struct{})
		clients := make([]*stuck, 8)
		var answered atomic.Int32
		for i := range clients {
			clients[i] = &stuck{header: http.Header{}, release: release}
			go func() {
				h.ServeHTTP(clients[i], httptest.NewRequest("GET", fmt.Sprint("/", i), nil))
				answered.Add(1)
			}()
		}
		synctest.Wait() // nothing moves any more: three of 20 MiB are being sent, and the others were refused at once
		if n := answered.Load(); n != 5 {
			t.Errorf("%d of 8 were answered while nobody reads, want 5", n)
		}
		close(release)
		synctest.Wait()
		count := map[int]int{}
		for _, c := range clients {
			count[c.status]++
		}
		if count[http.StatusServiceUnavailable] != 5 || count[http.StatusOK] != 3 {
			t.Errorf("answers by status: %v, want 3 that were sent and 5 that were refused", count)
		}
		if w := ask(h, "GET", "/later"); w.Code != http.StatusOK {
			t.Errorf("once the slow ones have read, the next one gets %d", w.Code)
		}
	})
}

// stuck is a client that does not read an answer until it is released.
type stuck struct {
	header  http.Header
	status  int
	release chan struct{}
}

func (s *stuck) Header() http.Header    { return s.header }
func (s *stuck) WriteHeader(status int) { s.status = status }
func (s *stuck) Write(b []byte) (int, error) {
	if s.status == http.StatusOK {
		<-s.release
	}
	return len(b), io.EOF
}

// A page of another site whose name was made to resolve to this machine, or that sends a request here, gets nothing.
func TestLoopbackOnly(t *testing.T) {
	h := LoopbackOnly(secret)
	for _, c := range []struct {
		url, site string
		status    int
	}{
		{"http://127.0.0.1:8080/ledger", "", 200}, {"http://localhost/ledger", "none", 200}, {"http://[::1]:80/ledger", "same-origin", 200},
		{"http://evil.example/ledger", "", 403}, {"http://192.0.2.7:8080/ledger", "", 403}, {"http://127.0.0.1/ledger", "cross-site", 403},
	} {
		r := httptest.NewRequest("GET", c.url, nil)
		r.Header.Set("Sec-Fetch-Site", c.site)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != c.status {
			t.Errorf("%s from %q: %d, want %d", c.url, c.site, w.Code, c.status)
		}
	}
}
