/**
 * The entry of the npm package: the library, and before it what Node 20 lacks of the language that the library is
 * written in.
 */

import "core-js/actual/array/from-async";
import "core-js/actual/iterator/some";
import "core-js/actual/map/group-by";
import "core-js/actual/promise/try";
import "core-js/actual/promise/with-resolvers";
import "core-js/actual/typed-array/from-base64";

export * from "./mod.ts";
