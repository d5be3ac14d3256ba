// Types of the parts of @std that the product uses: the npm build of @std carries none.
declare module "@std/semver" {
  export interface SemVer {
    readonly major: number;
    readonly minor: number;
    readonly patch: number;
    readonly prerelease?: readonly (string | number)[];
    readonly build?: readonly string[];
  }
  export type Range = readonly (readonly unknown[])[];
  export function parse(value: string): SemVer;
  export function compare(version1: SemVer, version2: SemVer): 1 | 0 | -1;
  export function parseRange(value: string): Range;
  export function satisfies(version: SemVer, range: Range): boolean;
}

declare module "@std/yaml" {
  export interface ParseOptions {
    /** `failsafe` keeps every scalar as a text. */
    readonly schema?: "failsafe" | "json" | "core" | "default" | "extended";
  }
  export function parse(content: string, options?: ParseOptions): unknown;
}
