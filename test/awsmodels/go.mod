module github.com/dovetail-sh/dovetail/test/awsmodels

go 1.26.0

require (
	github.com/aws/aws-sdk-go v1.55.8
	github.com/dovetail-sh/dovetail v0.0.0
)

require (
	github.com/pelletier/go-toml/v2 v2.4.3 // indirect
	go.yaml.in/yaml/v2 v2.4.4 // indirect
	sigs.k8s.io/yaml v1.6.0 // indirect
)

replace github.com/dovetail-sh/dovetail => ../..
