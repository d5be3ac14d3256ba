import { assertEquals, assertMatch } from "@std/assert";
import { EXECUTABLES, execute, TARGETS } from "../compiler.ts";
import { makeArchive } from "./archive.ts";
import type { DistributedBuild } from "./build.ts";
import { isDebian, makeDeb } from "./deb.ts";

const [LINUX, , WINDOWS] = TARGETS;
const program = (name: string) => EXECUTABLES.find((one) => one.name === name)!;
const hasDpkg = Deno.build.os === "linux" && (await execute("sh", ["-c", "command -v dpkg-deb"])).code === 0;

/** A folder with a program that prints `version`, for packing. */
async function withBuild(version: string, run: (build: DistributedBuild) => Promise<void>): Promise<void> {
  const folder = await Deno.makeTempDir();
  try {
    const path = `${folder}/program`;
    await Deno.writeTextFile(path, `#!/bin/sh\necho ${version}\n`, { mode: 0o755 });
    const notices = `${folder}/notices.txt`;
    await Deno.writeTextFile(notices, "notices\n");
    await run({ path, notices, version, folder });
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

Deno.test({
  name: "the same executable gives the same archive, with the program, its license, notices and manual",
  ignore: Deno.build.os !== "linux",
  fn: () =>
    withBuild("0.2.0", async (build) => {
      const file = await makeArchive(program("svc-ml"), LINUX, build);
      const first = await Deno.readFile(`${build.folder}/${file}`);
      await Deno.remove(`${build.folder}/${file}`);
      assertEquals(await makeArchive(program("svc-ml"), LINUX, build), "svc-ml-0.2.0-linux-x64.tar.gz");
      assertEquals(await Deno.readFile(`${build.folder}/${file}`), first);

      const { output } = await execute("tar", ["-tzvf", `${build.folder}/${file}`]);
      const listed = output.trim().split("\n").map((line) => line.split(/\s+/)).map((cells) =>
        `${cells[0]} ${cells[1]} ${cells.at(-1)}`
      );
      const folder = "svc-ml-0.2.0-linux-x64";
      assertEquals(listed.slice(1), [
        `-rw-r--r-- 0/0 ${folder}/LICENSE`,
        `-rw-r--r-- 0/0 ${folder}/THIRD_PARTY_NOTICES.txt`,
        `-rwxr-xr-x 0/0 ${folder}/svc-ml`,
        `-rw-r--r-- 0/0 ${folder}/svc-ml.1`,
      ]);
    }),
});

Deno.test("an archive for Windows is a ZIP archive with an .exe", () =>
  withBuild("0.2.0", async (build) => {
    assertEquals(
      await makeArchive(program("svc-server"), WINDOWS, build),
      "svc-server-0.2.0-windows-x64.zip",
    );
    const bytes = await Deno.readFile(`${build.folder}/svc-server-0.2.0-windows-x64.zip`);
    assertMatch(new TextDecoder("latin1").decode(bytes), /svc-server-0\.2\.0-windows-x64\/svc-server\.exe/);
  }));

Deno.test("there is a Debian package of every program for Linux but the agent, which updates itself", () => {
  const made = EXECUTABLES.filter((one) => isDebian(one, LINUX)).map(({ name }) => name);
  assertEquals(made, ["svc-server", "svc-micro-server", "svc-ml", "svc-cloud"]);
  assertEquals(isDebian(program("svc-server"), WINDOWS), false);
});

Deno.test({
  name: "dpkg installs a Debian package, updates it, and removes all of it",
  ignore: !hasDpkg || Deno.uid() !== 0,
  fn: () =>
    withBuild("0.2.0-rc.1", async (build) => {
      const root = `${build.folder}/root`;
      await Deno.mkdir(`${root}/var/lib/dpkg/updates`, { recursive: true });
      await Deno.writeTextFile(`${root}/var/lib/dpkg/status`, "");
      // Without a change of root: the scripts see no running systemd there, and the libraries are those of this computer.
      const dpkg = async (...args: string[]) => {
        const given = [`--root=${root}`, "--force-script-chrootless", "--force-depends", ...args];
        const { code, output, errors } = await execute("dpkg", given);
        assertEquals(code, 0, output + errors);
      };

      const older = await makeDeb(program("svc-server"), LINUX, build);
      assertEquals(older, "svc-server_0.2.0-rc.1_amd64.deb");
      await dpkg("--install", `${build.folder}/${older}`);
      assertEquals((await execute(`${root}/usr/bin/svc-server`, [])).output, "0.2.0-rc.1\n");
      const unit = await Deno.readTextFile(`${root}/usr/lib/systemd/system/svc-server.service`);
      assertMatch(unit, /^ExecStart=\/usr\/bin\/svc-server -config \/etc\/svc\.json$/m);

      await Deno.writeTextFile(build.path, "#!/bin/sh\necho newer\n");
      const newer = await makeDeb(program("svc-server"), LINUX, { ...build, version: "0.2.0" });
      await dpkg("--install", "--refuse-downgrade", `${build.folder}/${newer}`);
      assertEquals((await execute(`${root}/usr/bin/svc-server`, [])).output, "newer\n");

      const cloud = await makeDeb(program("svc-cloud"), LINUX, { ...build, version: "0.2.0" });
      await dpkg("--install", `${build.folder}/${cloud}`);
      const cloudsUnit = await Deno.readTextFile(`${root}/usr/lib/systemd/system/svc-cloud.service`);
      assertMatch(cloudsUnit, /^User=svc-cloud$[^]*^ExecStart=\/usr\/bin\/svc-cloud serve$/m);
      assertMatch(await Deno.readTextFile(`${root}/usr/lib/sysusers.d/svc-cloud.conf`), /^u svc-cloud /);

      await dpkg("--purge", "svc-server", "svc-cloud");
      const { output } = await execute("find", [root, "-name", "*svc-*"]);
      assertEquals(output, "");
    }),
});

Deno.test({
  name:
    "the scripts of a Debian package do not fail where systemd refuses: a masked unit, a bad configuration",
  ignore: !hasDpkg,
  fn: () =>
    withBuild("0.2.0", async (build) => {
      const [parts, log] = [`${build.folder}/parts`, `${build.folder}/log`];
      const file = await makeDeb(program("svc-server"), LINUX, build);
      await execute("dpkg-deb", ["--control", `${build.folder}/${file}`, parts]);
      await Deno.writeTextFile(`${parts}/systemctl`, `#!/bin/sh\necho "$@" >>${log}\nexit 1\n`, {
        mode: 0o755,
      });
      const ran = async (script: string, ...args: string[]) => {
        await Deno.writeTextFile(log, "");
        const text = await Deno.readTextFile(`${parts}/${script}`);
        // As on a computer that systemd has started.
        const given = ["-c", text.replaceAll("/run/systemd/system", parts), script, ...args];
        const { code } = await execute("sh", given, { PATH: `${parts}:${Deno.env.get("PATH")}` });
        return [code, ...(await Deno.readTextFile(log)).trim().split("\n")];
      };

      const unit = "svc-server.service";
      assertEquals(await ran("postinst", "configure", "0.1.0"), [0, "daemon-reload", `try-restart ${unit}`]);
      assertEquals(await ran("prerm", "remove"), [0, `stop ${unit}`, `disable ${unit}`]);
      assertEquals(await ran("prerm", "upgrade", "0.3.0"), [0, ""]);
      assertEquals(await ran("postrm", "remove"), [0, "daemon-reload"]);
    }),
});
