/** The library of the message bus, with the types of the part that is used. */

// @ts-types="./dbus_native.d.ts"
export { createClient, defineInterface, Variant } from "dbus-native";
