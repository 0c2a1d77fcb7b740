// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package access

import (
	"fmt"
	"html"
	"net/http"
	"strings"
)

// cookieName is that of the cookie that holds a token. Browsers take the prefix __Host- only from TLS, for one host, path /.
const cookieName = "__Host-dovetail-token"

// mostForm is how many bytes of a form are read.
const mostForm = mostToken + 1<<10

// SignInPath is where the form of the sign-in page goes.
const SignInPath = "/ui/sign-in"

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
<p>A token is made by: <code>%s --duration 8h</code></p>
</main>
</body>
</html>
`, html.EscapeString(why.text), SignInPath, html.EscapeString(g.command))
}

// SignIn takes the token of the sign-in form: it is kept in a cookie that no script can read and no other site can have
// sent, until the browser ends. A token that would not open the page is refused at once.
func (g *Gate) SignIn(page string) http.Handler {
	return SameSite(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		r.Body = http.MaxBytesReader(w, r.Body, mostForm)
		token := strings.TrimSpace(r.PostFormValue("token"))
		open := r.Clone(r.Context())
		open.Method, open.URL.Path = http.MethodGet, page
		open.Header = http.Header{"Authorization": {"Bearer " + token}}
		if refused := g.check(open); refused != nil {
			g.writeSignIn(w, refused)
			return
		}
		http.SetCookie(w, &http.Cookie{Name: cookieName, Value: token, Path: "/", Secure: true, HttpOnly: true, SameSite: http.SameSiteStrictMode})
		http.Redirect(w, r, page, http.StatusSeeOther)
	}))
}
