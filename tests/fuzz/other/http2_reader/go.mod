module svc-fuzz/http2_reader

go 1.23.8

require golang.org/x/net v0.42.0

require golang.org/x/text v0.27.0 // indirect
