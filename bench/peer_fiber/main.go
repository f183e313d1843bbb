// A peer for bench/run: gofiber's idempotency middleware, with its records in Redis.
//
//	peer_fiber PORT REDIS_PORT
//
// POST /…/N answers 201 with N bytes of JSON.
package main

import (
	"log"
	"os"
	"strconv"
	"strings"

	"github.com/gofiber/fiber/v3"
	"github.com/gofiber/fiber/v3/middleware/idempotency"
	"github.com/gofiber/storage/redis/v3"
)

func main() {
	port := os.Args[1]
	redisPort, err := strconv.Atoi(os.Args[2])
	if err != nil {
		log.Fatal(err)
	}
	app := fiber.New()
	app.Use(idempotency.New(idempotency.Config{
		KeyHeader: "Idempotency-Key",
		// Any length: the keys of the load are no UUIDs.
		KeyHeaderValidate: func(string) error { return nil },
		Storage:           redis.New(redis.Config{Host: "127.0.0.1", Port: redisPort}),
	}))
	app.Post("/payments/:size", func(c fiber.Ctx) error {
		size, err := strconv.Atoi(c.Params("size"))
		if err != nil {
			return err
		}
		c.Set("Content-Type", "application/json")
		return c.Status(201).SendString(`{"id":"` + strings.Repeat("x", size-9) + `"}`)
	})
	log.Fatal(app.Listen("127.0.0.1:"+port, fiber.ListenConfig{DisableStartupMessage: true}))
}
