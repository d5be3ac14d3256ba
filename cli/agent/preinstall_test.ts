import { dirname } from "node:path";
import { assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { DenoHost } from "../../lib/base/host_deno.ts";
import { main } from "./main.ts";

const CREDENTIALS =
  '{"cloud": {"app_address": "https://c.example", "id": "p", "api_key": {"id": "k", "key": "s3cr3t"}}}';
/** The beginning of a program for Linux on 64-bit ARM. */
const ELF = Uint8Array.from(
  { length: 64 },
  (_, at) => [0x7f, 0x45, 0x4c, 0x46, 2][at] ?? (at === 18 ? 0xb7 : 0),
);

async function command(...args: string[]): Promise<{ code: number; output: string }> {
  const host = new DenoHost(true);
  let output = "";
  host.write = (text) => void (output += text);
  host.writeError = (text) => void (output += text);
  return { code: await main(["preinstall", ...args], host), output };
}

/** A folder with files for the image, and the least of a root file system. */
async function context(): Promise<{ folder: string; root: string; flags: string[] }> {
  const folder = await Deno.makeTempDir({ prefix: "svc-image-" });
  const root = `${folder}/root`;
  for (const made of ["etc/systemd/system", "usr/lib/systemd", "opt"]) {
    await Deno.mkdir(`${root}/${made}`, { recursive: true });
  }
  await Deno.writeTextFile(`${root}/etc/os-release`, "ID=debian\n");
  await Deno.writeTextFile(`${root}/usr/lib/systemd/systemd`, "");
  await Deno.writeFile(`${folder}/svc-agent`, ELF);
  await Deno.writeTextFile(`${folder}/svc.json`, CREDENTIALS);
  await Deno.writeTextFile(
    `${folder}/defaults.json`,
    '{"network_configuration": {"hotspot_prefix": "shop"}}',
  );
  const flags = ["--program", `${folder}/svc-agent`, "--program-version", "1.2.3"];
  return { folder, root, flags };
}

const needsRoot = { ignore: Deno.build.os !== "linux" || Deno.uid() !== 0 };

Deno.test({
  name: "preinstall: a mounted image gets the agent, its service, and what is given for the device",
  ...needsRoot,
  fn: async () => {
    const { folder, root, flags } = await context();
    const given = ["--credentials", `${folder}/svc.json`, "--image-defaults", `${folder}/defaults.json`];
    const { code, output } = await command(root, ...flags, ...given);
    assertEquals([code, output], [0, `svc-agent 1.2.3 is in ${root}\n`]);
    const link = await Deno.readLink(`${root}/opt/svc/bin/svc-agent`);
    assertMatch(link, /^\.\.\/cache\/svc-agent-1\.2\.3-[0-9a-f]{12}$/);
    assertEquals(await Deno.readFile(`${root}/opt/svc/bin/${link}`), ELF);
    for (const [path, mode] of [["etc/svc.json", 0o600], [`opt/svc/bin/svc-agent-loader`, 0o755]] as const) {
      assertEquals((await Deno.stat(`${root}/${path}`)).mode! & 0o777, mode, path);
    }
    assertStringIncludes(await Deno.readTextFile(`${root}/etc/svc-defaults.json`), "shop");
    const unit = "/etc/systemd/system/svc-agent.service";
    assertStringIncludes(
      await Deno.readTextFile(`${root}${unit}`),
      "ExecStart=/opt/svc/bin/svc-agent-loader --dir /opt/svc ",
    );
    const wants = `${root}/etc/systemd/system/multi-user.target.wants/svc-agent.service`;
    assertEquals(await Deno.readLink(wants), unit, "as the device sees it");
    // Again, with another version: as an image is made again and again.
    assertEquals((await command(root, ...flags.slice(0, 3), "1.3.0")).code, 0);
    assertMatch(await Deno.readLink(`${root}/opt/svc/bin/svc-agent`), /svc-agent-1\.3\.0-/);
    await Deno.remove(folder, { recursive: true });
  },
});

Deno.test({
  name: "preinstall: a tar file gets the same, of root, beside what it has",
  ...needsRoot,
  fn: async () => {
    const { folder, root, flags } = await context();
    const tar = async (...args: string[]) => {
      const { code, stdout } = await new Deno.Command("tar", { args }).output();
      assertEquals(code, 0);
      return new TextDecoder().decode(stdout);
    };
    for (const [name, from] of [["dots.tar", ["."]], ["plain.tar", ["etc", "usr"]]] as const) {
      await tar("-cf", `${folder}/${name}`, "-C", root, ...from);
      const given = ["--credentials", `${folder}/svc.json`];
      assertEquals(await command(`${folder}/${name}`, ...flags, ...given).then(({ code }) => code), 0);
      const prefix = from.length === 1 ? "./" : "";
      const lines = (await tar("-tvf", `${folder}/${name}`)).split("\n");
      const line = (path: string) => lines.find((one) => one.includes(` ${prefix}${path}`)) ?? "";
      assertMatch(line("etc/svc.json"), /^-rw------- (root\/root|0\/0) /);
      assertStringIncludes(line("opt/svc/bin/svc-agent "), "-> ../cache/svc-agent-1.2.3-");
      const wants = "etc/systemd/system/multi-user.target.wants/svc-agent.service";
      assertStringIncludes(line(wants), "-> /etc/systemd/system/svc-agent.service");
      assertEquals(line("etc/os-release") !== "", true);
    }
    await Deno.remove(folder, { recursive: true });
  },
});

Deno.test({
  name:
    "preinstall: refuses what is no image, what leads out of one, and files that the device could not use",
  ...needsRoot,
  fn: async () => {
    const { folder, root, flags } = await context();
    await Deno.mkdir(`${folder}/empty`);
    await Deno.writeTextFile(`${folder}/bad.json`, '{"cloud": {}}');
    await Deno.writeFile(`${folder}/packed.tar`, Uint8Array.of(0x1f, 0x8b, 8, 0));
    await Deno.writeTextFile(`${folder}/no.tar`, "no tar file");
    for (
      const [args, wanted] of [
        [[`${folder}/none`, ...flags], /there is no folder and no tar file/],
        [[`${folder}/empty`, ...flags], /is no root file system/],
        [[`${folder}/packed.tar`, ...flags], /is compressed/],
        [[`${folder}/no.tar`, ...flags], /is no tar file of a root file system/],
        [[root, ...flags, "--credentials", `${folder}/bad.json`], /bad\.json.*app_address/],
        [[root, ...flags, "--image-defaults", `${folder}/none.json`], /there is no .*none\.json/],
        [[root, ...flags, "--authorities", `${folder}/svc.json`], /wanted PEM/],
        [[root, "--program", `${folder}/svc.json`], /--program .*wanted a program for linux/],
        [[root, ...flags.slice(0, 2)], /give its version with --program-version/],
        [[root], /runs from source, .* --program \(deno task compile --target linux-arm64 svc-agent/],
      ] as const
    ) {
      const { code, output } = await command(...args);
      assertEquals(code, 1, output);
      assertMatch(output, wanted);
      assertEquals(output.includes("s3cr3t"), false);
    }
    await Deno.remove(`${root}/opt`);
    await Deno.mkdir(`${folder}/outside`);
    await Deno.symlink(`${folder}/outside`, `${root}/opt`);
    const { code, output } = await command(root, ...flags);
    assertEquals(code, 1);
    assertStringIncludes(output, "leads out of the image");
    assertEquals([...Deno.readDirSync(`${folder}/outside`)], []);
    await Deno.remove(folder, { recursive: true });
  },
});

Deno.test({
  name: "preinstall: no folder that it writes to is a link out of the image; an image needs systemd",
  ...needsRoot,
  fn: async () => {
    const { folder, root, flags } = await context();
    const outside = `${folder}/outside`;
    await Deno.mkdir(outside);
    const wants = "etc/systemd/system/multi-user.target.wants";
    for (const path of ["opt/svc/bin", "opt/svc/etc", wants, "usr/local", "opt/svc/cache"]) {
      for (const target of [outside, "/no/such/folder", "../".repeat(40) + outside.slice(1)]) {
        await Deno.mkdir(dirname(`${root}/${path}`), { recursive: true });
        await Deno.symlink(target, `${root}/${path}`);
        const { code, output } = await command(root, ...flags);
        assertEquals([code, output.includes(`${root}/${path} is a link that leads out`)], [1, true], output);
        await Deno.remove(`${root}/${path}`);
      }
    }
    assertEquals([...Deno.readDirSync(outside)], []);
    // A link that stays inside is of no harm, as of an image whose /opt is on another partition.
    await Deno.remove(`${root}/opt`, { recursive: true });
    await Deno.mkdir(`${root}/var/opt`, { recursive: true });
    await Deno.symlink("var/opt", `${root}/opt`);
    assertEquals((await command(root, ...flags)).code, 0);
    assertEquals((await Deno.stat(`${root}/var/opt/svc/bin/svc-agent`)).size, ELF.length);
    await Deno.remove(`${root}/usr/lib/systemd/systemd`);
    assertStringIncludes((await command(root, ...flags)).output, "has no systemd");
    await Deno.remove(folder, { recursive: true });
  },
});

Deno.test({
  name: "preinstall: a tar file that would not unpack to a device with the agent is refused",
  ...needsRoot,
  fn: async () => {
    const { folder, root, flags } = await context();
    const tar = `${folder}/image.tar`;
    const run = async (...args: string[]) => {
      const { code, stderr } = await new Deno.Command("tar", { args }).output();
      assertEquals(code, 0, new TextDecoder().decode(stderr));
    };
    const packed = async () => {
      await run("-cf", tar, "-C", root, ".");
      const { size } = await Deno.stat(tar);
      const { code, output } = await command(tar, ...flags);
      // What is refused stays as it was.
      assertEquals(code === 1, (await Deno.stat(tar)).size === size, output);
      return output;
    };
    await Deno.remove(`${root}/opt`);
    await Deno.mkdir(`${root}/var/opt`, { recursive: true });
    for (const target of ["/var/opt", "../../var/opt", "./../opt"]) {
      await Deno.symlink(target, `${root}/opt`);
      assertStringIncludes(await packed(), `opt is a link to ${target}, which tar does not follow`);
      await Deno.remove(`${root}/opt`);
    }
    await Deno.symlink("var/opt", `${root}/opt`);
    assertMatch(await packed(), /^svc-agent 1\.2\.3 is in/);
    await Deno.mkdir(`${folder}/unpacked`);
    await run("-xf", tar, "-C", `${folder}/unpacked`);
    assertEquals((await Deno.stat(`${folder}/unpacked/var/opt/svc/bin/svc-agent`)).size, ELF.length);
    // The file of the release may be at its other place.
    await Deno.rename(`${root}/etc/os-release`, `${root}/usr/lib/os-release`);
    assertMatch(await packed(), /^svc-agent 1\.2\.3 is in/);
    await Deno.remove(`${root}/usr/lib/systemd/systemd`);
    assertStringIncludes(await packed(), "has no systemd");
    await Deno.remove(folder, { recursive: true });
  },
});
