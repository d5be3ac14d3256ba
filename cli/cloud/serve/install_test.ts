import { assert, assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { FakeClock, passing } from "../../../tests/support/fake_clock.ts";
import { FakeCommands } from "../../../tests/support/fake_commands.ts";
import { FakeFiles } from "../../../tests/support/fake_files.ts";
import { Logs } from "../../../lib/base/log/log.ts";
import { cloudUnit, installCloudService, startCloudService, withAbsolutePaths } from "./install.ts";

Deno.test("serve --install: the unit serves with the same flags, as a user of its own", () => {
  const args = [
    "serve",
    "--listen",
    "127.0.0.1:8090",
    "--install",
    "--public-url",
    "https://a.example/x y%1",
  ];
  const { name, text } = cloudUnit(args);
  assertEquals(name, "svc-cloud");
  const line = text.split("\n").find((one) => one.startsWith("ExecStart="));
  const words =
    '/usr/local/bin/svc-cloud serve --listen 127.0.0.1:8090 --public-url "https://a.example/x y%%1"';
  assertEquals(line, `ExecStart=${words}`);
  for (
    const setting of [
      "User=svc-cloud",
      "StateDirectory=svc-cloud",
      "Restart=always",
      "NotifyAccess=main",
      "WantedBy=multi-user.target",
    ]
  ) {
    assertStringIncludes(text, setting);
  }
});

Deno.test({
  name: "serve --install: systemd takes the unit",
  ignore: !await Deno.stat("/usr/bin/systemd-analyze").then(() => true, () => false),
  fn: async () => {
    const folder = await Deno.makeTempDir({ prefix: "svc-unit-" });
    try {
      const path = `${folder}/svc-cloud.service`;
      // The checker wants a program and a user that are there.
      const { text } = cloudUnit(["serve"], "/bin/true", [443]);
      await Deno.writeTextFile(path, text.replace(/^(User|Group)=.*$/gm, "$1=root"));
      const { stderr } = await new Deno.Command("systemd-analyze", { args: ["verify", "--man=no", path] })
        .output();
      const output = new TextDecoder().decode(stderr).split("\n").filter((line) => line.includes(path));
      assertEquals(output, []);
      assert(text.includes("ExecStart=/bin/true serve"));
    } finally {
      await Deno.remove(folder, { recursive: true });
    }
  },
});

Deno.test("serve --install: paths count from the folder of the command, not from the service's", () => {
  const args =
    "--data=cloud serve --tls-cert ./c.pem --tls-key=/etc/k.pem --files s3://b/p --limits ../l.json"
      .split(" ");
  const { words, paths } = withAbsolutePaths([...args, "--smtp", "a/b"], "/srv/x");
  const wanted = "--data=/srv/x/cloud serve --tls-cert /srv/x/c.pem --tls-key=/etc/k.pem --files s3://b/p " +
    "--limits /srv/l.json --smtp a/b";
  assertEquals(words.join(" "), wanted);
  assertEquals(paths.map(({ name }) => name), ["data", "tls-cert", "tls-key", "limits"]);
});

Deno.test("serve --install: ports below 1024 are allowed to the service if it listens on one", () => {
  const capability = "AmbientCapabilities=CAP_NET_BIND_SERVICE";
  for (const [ports, isLow] of [[[443], true], [[8090, 53], true], [[80, 3478], true]] as const) {
    assertEquals(cloudUnit(["serve"], "/bin/true", ports).text.includes(capability), isLow);
  }
  for (const ports of [[], [0], [1024, 8090]]) {
    assertEquals(cloudUnit(["serve"], "/bin/true", ports).text.includes(capability), false);
  }
});

Deno.test("serve --install: refuses files that the service could not see or read", async () => {
  const logger = new Logs(new FakeClock(), []).logger("x");
  const install = (name: string, path: string, commands: FakeCommands) => {
    const service = { words: ["serve", `--${name}`, path], paths: [{ name, path }], ports: [443] };
    return installCloudService(service, "/usr/local/bin/svc-cloud", {
      files: new FakeFiles(),
      commands,
      logger,
    });
  };
  for (const path of ["/root/c.pem", "/home/ann/c.pem", "/tmp/c.pem", "/run/user/1/c.pem"]) {
    const commands = new FakeCommands();
    const error = await assertRejects(() => install("tls-cert", path, commands), Error, `--tls-cert ${path}`);
    assertStringIncludes(error.message, "a service does not see /");
    assertEquals(commands.ran, []);
  }
  const closed = new FakeCommands({ "runuser -u svc-cloud -- test -r /etc/k.pem": { code: 1 } });
  const refused = () => install("tls-key", "/etc/k.pem", closed);
  await assertRejects(refused, Error, "chgrp svc-cloud /etc/k.pem && chmod 640 /etc/k.pem");
  const open = new FakeCommands();
  await install("tls-key", "/rooted/k.pem", open);
  assert(open.ran.includes("systemctl daemon-reload"));
});

Deno.test("serve --install: ends well only when the service serves", async () => {
  const show = "systemctl show --property=ActiveState,NRestarts svc-cloud";
  const start = async (state: string, open: readonly boolean[], listen = "0.0.0.0") => {
    const commands = new FakeCommands({
      [show]: { output: state },
      "journalctl": { output: "the port 443 needs rights\n" },
    });
    const asked: string[] = [];
    const clock = new FakeClock();
    const isOpen = (url: string) => {
      asked.push(url);
      return Promise.resolve(open[asked.length - 1] ?? false);
    };
    const listens = { scheme: "https", host: listen, port: 443 };
    await passing(clock, 120_000, startCloudService(listens, { commands, clock, isOpen }));
    return { ran: commands.ran, asked };
  };
  const active = "ActiveState=active\nNRestarts=0\n";
  const { ran, asked } = await start(active, [false, false, true]);
  assertEquals(asked, Array(3).fill("https://127.0.0.1:443/healthz"));
  assert(ran.indexOf("systemctl stop svc-cloud") < ran.indexOf("systemctl start svc-cloud"));
  assertEquals((await start(active, [false, true], "::")).asked[0], "https://[::1]:443/healthz");
  await assertRejects(() => start(active, [true]), Error, "another program answers at 127.0.0.1:443");
  for (
    const state of [
      "ActiveState=active\nNRestarts=1\n",
      "ActiveState=activating\nNRestarts=1\n",
      "ActiveState=failed\nNRestarts=0\n",
    ]
  ) {
    await assertRejects(() => start(state, []), Error, "it says: the port 443 needs rights");
  }
  await assertRejects(() => start(active, []), Error, "does not serve");
});
