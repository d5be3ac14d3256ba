import { assertEquals } from "@std/assert";
import { AuthService } from "../../proto/gen/auth_pb.ts";
import { SystemClock } from "../../lib/base/clock.ts";
import { SvcError } from "../../lib/base/error.ts";
import { connectGrpc } from "../../lib/wire/grpc/grpc_channel.ts";
import { client } from "../../lib/wire/rpc/channel.ts";
import { withDemo } from "../support/server.ts";

Deno.test("a machine without keys tells a client that offers one to connect without", () =>
  withDemo(async ({ url }) => {
    const channel = connectGrpc(new URL(url).host, { clock: new SystemClock() });
    try {
      const asked = client(AuthService, channel).authenticate({ entity: "id" });
      const error = await asked.then(() => undefined, SvcError.from);
      // Published clients take this code for a machine without authentication.
      assertEquals([error?.code, error?.message], [
        "unimplemented",
        "this machine takes no credentials (its configuration has no auth.handlers): connect without a key",
      ]);
    } finally {
      channel.close();
    }
  }));
