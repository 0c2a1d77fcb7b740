// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package access

import (
	"net/http"
	"strings"
)

// mostForm is how many bytes of a form are read.
const mostForm = mostToken + 1<<10

// SignIn accepts the token of the sign-in form and stores it in a cookie until the browser is closed. Scripts cannot read the
// cookie, and other sites cannot send it. A token that is not authorized for page is refused at once.
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
