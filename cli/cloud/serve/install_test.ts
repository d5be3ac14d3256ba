import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { cloudUnit } from "./install.ts";

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
      const { text } = cloudUnit(["serve"], "/bin/true");
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
