module example.com/go-consumer

go 1.19
