// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package access

import (
	"context"
	"crypto/sha256"
	"fmt"
	"html"
	"net/http"
	"strings"
	"time"
)

// Audience is the required audience of tokens. Tokens for the API server are refused, so that users do not get used to sending them
// to another server.
const Audience = "dovetail.sh"

const (
	allowedFor    = 30 * time.Second // how long a review that let somebody through is remembered, and a refused one
	refusedFor    = 5 * time.Second
	mostReviews   = 1024 // of each kind that are remembered
	reviewsAtOnce = 4
	reviewLimit   = 10 * time.Second // how long a request waits for its reviews
	mostToken     = 8 << 10          // bytes
)

// User is the user of a token, as returned by the API server.
type User struct {
	Name, UID string
	Groups    []string
	Extra     map[string][]string
}

// Reviewer sends reviews to the API server. An error means that the API server did not answer.
type Reviewer interface {
	// ReviewToken returns the user of a token with audience Audience; ok is false if the token is invalid or has another audience.
	ReviewToken(ctx context.Context, token string) (u User, ok bool, err error)
	// ReviewAccess reports whether a user may use verb on a path, a non-resource URL in RBAC.
	ReviewAccess(ctx context.Context, u User, verb, path string) (allowed bool, err error)
}

// Gate accepts requests with a token that is authorized for their path. It is safe for concurrent use.
type Gate struct {
	reviewer Reviewer
	command  string        // that makes a token
	asking   chan struct{} // as many reviews at once
	users    *memory[[sha256.Size]byte, identity]
	rights   *memory[right, bool]
}

// identity is what a token review said.
type identity struct {
	user User
	ok   bool
}

// right is what an access review was asked: the token stands for its user.
type right struct {
	token      [sha256.Size]byte
	verb, path string
}

// NewGate returns a Gate. namespace is the namespace of ServiceAccount dovetail-viewer, for messages; now is the clock for the
// expiry of cached reviews.
func NewGate(r Reviewer, namespace string, now func() time.Time) *Gate {
	return &Gate{
		reviewer: r, command: "kubectl -n " + namespace + " create token dovetail-viewer --audience " + Audience, asking: make(chan struct{}, reviewsAtOnce),
		users: newMemory[[sha256.Size]byte, identity](mostReviews, now), rights: newMemory[right, bool](mostReviews, now),
	}
}

// Protect passes requests to next if the API server authenticates their token (otherwise 401) and authorizes the path (otherwise
// 403). If the API server is unavailable, it returns 503.
func (g *Gate) Protect(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		if refused := g.check(r); refused != nil {
			if refused.status == http.StatusUnauthorized {
				w.Header().Set("WWW-Authenticate", `Bearer realm="dovetail"`)
			}
			if wantsPage(r) {
				g.writeSignIn(w, refused)
				return
			}
			if refused.status == http.StatusServiceUnavailable {
				w.Header().Set("Retry-After", "1")
			}
			http.Error(w, refused.text, refused.status)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// refusal is why a request does not get through.
type refusal struct {
	status int
	text   string
}

// check returns why a request does not get through; nil: it does.
func (g *Gate) check(r *http.Request) *refusal {
	token := tokenOf(r)
	if token == "" {
		return &refusal{http.StatusUnauthorized, "a bearer token is required; create one: " + g.command}
	}
	if len(token) > mostToken {
		return &refusal{http.StatusUnauthorized, fmt.Sprintf("the token has %d bytes, at most %d are read", len(token), mostToken)}
	}
	ctx, cancel := context.WithTimeout(r.Context(), reviewLimit)
	defer cancel()
	key := sha256.Sum256([]byte(token))
	who, err := remembered(ctx, g, g.users, key, func(x identity) bool { return x.ok }, func() (identity, error) {
		u, ok, err := g.reviewer.ReviewToken(ctx, token)
		return identity{u, ok}, err
	})
	if err != nil {
		return &refusal{http.StatusServiceUnavailable, "the token can't be reviewed: " + err.Error()}
	}
	if !who.ok {
		return &refusal{http.StatusUnauthorized, "the token is invalid, expired, or not for audience " + Audience + "; create one: " + g.command}
	}
	asked := right{key, strings.ToLower(r.Method), r.URL.Path}
	allowed, err := remembered(ctx, g, g.rights, asked, func(x bool) bool { return x }, func() (bool, error) {
		return g.reviewer.ReviewAccess(ctx, who.user, asked.verb, asked.path)
	})
	if err != nil {
		return &refusal{http.StatusServiceUnavailable, "the rights of " + who.user.Name + " can't be reviewed: " + err.Error()}
	}
	if !allowed {
		return &refusal{http.StatusForbidden, fmt.Sprintf("%s may not %s %s: it needs ClusterRole dovetail-viewer (kubectl create clusterrolebinding NAME --clusterrole=dovetail-viewer %s)",
			who.user.Name, asked.verb, asked.path, subjectFlag(who.user.Name))}
	}
	return nil
}

// subjectFlag is the flag of kubectl create clusterrolebinding that names a user.
func subjectFlag(user string) string {
	if account, ok := strings.CutPrefix(user, "system:serviceaccount:"); ok {
		return "--serviceaccount=" + account
	}
	return "--user=" + user
}

// tokenOf is the token of a request, of its Authorization header or else of the cookie of who has signed in; empty: it has
// none.
func tokenOf(r *http.Request) string {
	if scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " "); strings.EqualFold(scheme, "Bearer") {
		return strings.TrimSpace(token)
	}
	if c, err := r.Cookie(cookieName); err == nil {
		return c.Value
	}
	return ""
}

// remembered returns what is remembered of a key, or asks and remembers it. Only so many ask at once: who waits looks again
// first, since another may have asked the same.
func remembered[K comparable, V any](ctx context.Context, g *Gate, m *memory[K, V], key K, good func(V) bool, ask func() (V, error)) (V, error) {
	if v, ok := m.get(key); ok {
		return v, nil
	}
	var none V
	select {
	case g.asking <- struct{}{}:
		defer func() { <-g.asking }()
	case <-ctx.Done():
		return none, fmt.Errorf("too many token and access reviews in progress: %w", ctx.Err())
	}
	if v, ok := m.get(key); ok {
		return v, nil
	}
	v, err := ask()
	if err != nil {
		return none, err
	}
	keep := refusedFor
	if good(v) {
		keep = allowedFor
	}
	m.put(key, v, keep)
	return v, nil
}

// cookieName is that of the cookie that holds a token. Browsers take the prefix __Host- only from TLS, for one host, path /.
const cookieName = "__Host-dovetail-token"

// wantsPage reports whether a person's browser opens a page, rather than a program an answer.
func wantsPage(r *http.Request) bool {
	return r.Method == http.MethodGet && strings.Contains(r.Header.Get("Accept"), "text/html")
}

// writeSignIn writes the page on which a token is entered. It loads nothing and runs nothing.
func (g *Gate) writeSignIn(w http.ResponseWriter, why *refusal) {
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", "default-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	w.WriteHeader(why.status)
	fmt.Fprintf(w, `<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1"><meta name="color-scheme" content="light dark"><title>Dovetail · Sign in</title></head>
<body>
<main>
<h1>Dovetail</h1>
<p role="alert">%s</p>
<form method="post" action="%s">
<p><label for="token">Token</label><br><input id="token" name="token" type="password" autocomplete="off" required size="60"></p>
<p><button>Sign in</button></p>
</form>
<p>Create a token: <code>%s --duration 8h</code></p>
</main>
</body>
</html>
`, html.EscapeString(why.text), SignInPath, html.EscapeString(g.command))
}

// SignInPath is the path to which the sign-in form is sent.
const SignInPath = "/ui/sign-in"
