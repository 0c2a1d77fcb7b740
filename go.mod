module github.com/dovetail-sh/dovetail

go 1.26.0
