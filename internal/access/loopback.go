// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package access

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
)

// IsLoopback reports whether HOST or HOST:PORT is a loopback address.
func IsLoopback(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && addr.IsLoopback()
}

// LoopbackOnly refuses requests that a page of another site may have sent through a browser: requests with a Host that is no
// loopback address, and requests whose headers show another site. It is for servers that listen on a loopback address and require
// no token.
func LoopbackOnly(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !IsLoopback(r.Host) {
			http.Error(w, fmt.Sprintf("Host %q: served on loopback addresses only", r.Host), http.StatusForbidden)
			return
		}
		SameSite(next).ServeHTTP(w, r)
	})
}

// SameSite refuses requests that, according to the browser's headers, a page of another site sent.
func SameSite(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if site := r.Header.Get("Sec-Fetch-Site"); site != "" && site != "same-origin" && site != "none" {
			http.Error(w, "cross-site requests are not allowed", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}
