import { assertEquals, assertMatch, assertNotEquals, assertThrows } from "@std/assert";
import { SvcError } from "../../base/error.ts";
import { DecodeContext } from "../../base/schema/schema.ts";
import { moduleField } from "../config/settings.ts";
import { commandOf, socketPath } from "./launch.ts";

Deno.test("commandOf: a module's entry overrides the protocol's variables, which override the program's own", () => {
  const env = {
    viam_home: "x",
    MODULE_WORD: "from the agent",
    SVC_AGENT_RUNTIME: "/opt/agent",
    SVC_SERVING_FILE: "/f",
    SVC_API_KEY: "the device's",
    NOTIFY_SOCKET: "/run/systemd/notify",
    LISTEN_FDNAMES: "door",
    CREDENTIALS_DIRECTORY: "/run/credentials/svc",
  };
  const entry = { name: "m", type: "registry", module_id: "acme:m", env: { VIAM_MODULE_DATA: "/elsewhere" } };
  const command = commandOf({
    config: moduleField.required().decode(entry, new DecodeContext()),
    program: { path: "/p/run", root: "/p" },
    data: "/data",
    address: "/s/m.sock",
    logLevel: "debug",
    home: "/home",
    machine: {
      partId: "part",
      machineId: "machine",
      locationId: "place",
      organizationId: "us",
      fqdn: "m.local",
      appAddress: "https://cloud.example",
    },
    tracing: true,
    key: { id: "id", key: "secret" },
  }, { environment: () => env });
  const logged = {
    HOME: "/home",
    MODULE_NAME: "m",
    MODULE_ADDRESS: "/s/m.sock",
    MODULE_DATA: "/data",
    MODULE_ROOT: "/p",
    MODULE_ID: "acme:m",
    PRIMARY_ORG_ID: "us",
    LOCATION_ID: "place",
    MACHINE_FQDN: "m.local",
    MACHINE_ID: "machine",
    MACHINE_PART_ID: "part",
    APP_ADDRESS: "https://cloud.example",
    API_KEY_ID: "id",
    API_KEY: "secret",
    MODULE_TRACING: "1",
  };
  const wanted = Object.entries(logged).flatMap((
    [name, value],
  ) => [[`VIAM_${name}`, value], [`SVC_${name}`, value]]);
  assertEquals(command.env, {
    viam_home: "x",
    MODULE_WORD: "from the agent",
    ...Object.fromEntries(wanted),
    VIAM_MODULE_DATA: "/elsewhere",
  });
  assertEquals([command.command, command.cwd, command.bare], ["/p/run", "/p", true]);
  assertEquals(command.args, ["/s/m.sock", "--log-level=debug"]);
});

Deno.test("socketPath: is never longer than the system allows", () => {
  assertMatch(socketPath("/tmp/viam-module-1", "m"), /^\/tmp\/viam-module-1\/m-[a-z]{5}\.sock$/);
  assertNotEquals(socketPath("/tmp", "m"), socketPath("/tmp", "m"));
  const path = socketPath("/tmp/viam-module-1", "m".repeat(200));
  assertEquals(path.length, 103);
  assertMatch(path, /m-[A-Z2-7]{5}\.sock$/);
  const error = assertThrows(() => socketPath(`/${"x".repeat(100)}`, "m"), SvcError);
  assertMatch(error.message, /set TMPDIR to a folder with a shorter path/);
});
