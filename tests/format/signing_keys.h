/* Keys whose secrets are published: the test scalars of RFC 6979 and RFC 8032. Use them for tests
 * alone. */
#ifndef TESTS_FORMAT_SIGNING_KEYS_H
#define TESTS_FORMAT_SIGNING_KEYS_H

static const char ed25519_private[] =
    "-----BEGIN PRIVATE KEY-----\n"
    "MC4CAQAwBQYDK2VwBCIEIJ1hsZ3v/VpguoRK9JLsLMREScVpezJpGXA7rAMcrn9g\n"
    "-----END PRIVATE KEY-----\n";
static const char ed25519_public[] =
    "-----BEGIN PUBLIC KEY-----\n"
    "MCowBQYDK2VwAyEA11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=\n"
    "-----END PUBLIC KEY-----\n";
static const char p256_private[] =
    "-----BEGIN PRIVATE KEY-----\n"
    "MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgya+p2EW6dRZrXCFX\n"
    "Z7HWk05Qw9s26JsSe4piKxIPZyGhRANCAARg/tS6JVqdMclh63TGNW1owEm4kjth\n"
    "+mzmaWIuYPKftnkD/hAIuLyZpBrp6VYovGTy8bIMLX6fUXejwpTURiKZ\n"
    "-----END PRIVATE KEY-----\n";
static const char p256_public[] =
    "-----BEGIN PUBLIC KEY-----\n"
    "MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEYP7UuiVanTHJYet0xjVtaMBJuJI7\n"
    "Yfps5mliLmDyn7Z5A/4QCLi8maQa6elWKLxk8vGyDC1+n1F3o8KU1EYimQ==\n"
    "-----END PUBLIC KEY-----\n";
static const char p384_private[] =
    "-----BEGIN EC PRIVATE KEY-----\n"
    "MIGkAgEBBDBrnT2tLhuMHAWxmHW2ZZ9N4jw7Znvyl7qapHdAeHE32JbVck5McKgl\n"
    "+HLJ6mDS7fWgBwYFK4EEACKhZANiAATsOk5BW04ZpFaGGAKfQn+l2pqLxK6S4C4G\n"
    "quUoazAMZN748OqQVYZgZKJUUVSAvBOAFdm3LX1XJE6o75rAxiGJZwilk2f537n1\n"
    "TKhLPxydsSiLIxw64NT+c0T9JTMmRyA=\n"
    "-----END EC PRIVATE KEY-----\n";
static const char p384_public[] =
    "-----BEGIN PUBLIC KEY-----\n"
    "MHYwEAYHKoZIzj0CAQYFK4EEACIDYgAE7DpOQVtOGaRWhhgCn0J/pdqai8SukuAu\n"
    "BqrlKGswDGTe+PDqkFWGYGSiVFFUgLwTgBXZty19VyROqO+awMYhiWcIpZNn+d+5\n"
    "9UyoSz8cnbEoiyMcOuDU/nNE/SUzJkcg\n"
    "-----END PUBLIC KEY-----\n";
static const char p521_private[] =
    "-----BEGIN EC PRIVATE KEY-----\n"
    "MIHcAgEBBEIA+tBtqmK6OyXS+0ATPadXIF3mf1uwAY/ujIbhtox+dcqolusy8fR8\n"
    "cIVYNqbRb8wUZvbY++xn24nsDAiw6Za4NTigBwYFK4EEACOhgYkDgYYABAGJRVDQ\n"
    "eFky4A6qI7aU8hP4wxIfhtyXoE5acWfbTlvNNxEj1G5F22tdU3Cn8g+2MxVdOP+h\n"
    "bSvXYdysR0uaL1AjpABJMQHJYs1NL933giheZFhBOcL5G0f4f/gjVNZjD3RqKKDb\n"
    "JXQbWzSoKACLIqzCP5JPqvvU0z+B6maVbf6qK/389Q==\n"
    "-----END EC PRIVATE KEY-----\n";
static const char p521_public[] =
    "-----BEGIN PUBLIC KEY-----\n"
    "MIGbMBAGByqGSM49AgEGBSuBBAAjA4GGAAQBiUVQ0HhZMuAOqiO2lPIT+MMSH4bc\n"
    "l6BOWnFn205bzTcRI9RuRdtrXVNwp/IPtjMVXTj/oW0r12HcrEdLmi9QI6QASTEB\n"
    "yWLNTS/d94IoXmRYQTnC+RtH+H/4I1TWYw90aiig2yV0G1s0qCgAiyKswj+ST6r7\n"
    "1NM/gepmlW3+qiv9/PU=\n"
    "-----END PUBLIC KEY-----\n";
/* That of P-384, as both tools that people use encrypt it. */
#define ENCRYPTED_WITH "open sesame"
static const char encrypted_pkcs8[] =
    "-----BEGIN ENCRYPTED PRIVATE KEY-----\n"
    "MIIBHDBXBgkqhkiG9w0BBQ0wSjApBgkqhkiG9w0BBQwwHAQI8htNkFqTkGECAggA\n"
    "MAwGCCqGSIb3DQIJBQAwHQYJYIZIAWUDBAEqBBDmUwpg+yLIXiq40rqGaIFqBIHA\n"
    "h1EBd0T1fnAnN433VUO79UTPDlLUh2dsZKM+djTKeyCABQdBWxJ/6smNwjiXfpKO\n"
    "PTskN+tutPSKGvDj43uwcB/gmVt++6Egtn9IV0iJQghlgT5fJl75ORu4UiIxB7bO\n"
    "AyJZlL/2hn4UljG7FiXpQiWz37NkB86YXqHY8OsXzB6PfpeKTVMRiUz9oRVRGuq+\n"
    "i7V/o4UbLGd6z7NA4T+DcbAGE1edVKrrEnEPzbw3jrY+GNQWkWS62vyMI21qB9Ci\n"
    "-----END ENCRYPTED PRIVATE KEY-----\n";
static const char encrypted_sec1[] =
    "-----BEGIN EC PRIVATE KEY-----\n"
    "Proc-Type: 4,ENCRYPTED\n"
    "DEK-Info: AES-256-CBC,AD5F62326E1699EA5179B0775A6A8BC9\n"
    "\n"
    "Mv2FHngisfYW9//R+4Ps0GCpcmc2jdOX2n+KnrX+y4uRJmXsnPr1e964pjLxx+kU\n"
    "u5fbdNgY0ry5diinZXGZflMxrtSgsxpqNOITaN+mPv6mg1gDs4He5APOfvKoZJmL\n"
    "SYgDd7C3pfNnwdfGDtsJRI+HbT07IZjW0QDc82AYNqMJmqItAo8BBwZHxdUhxSE3\n"
    "Pvp1WYikWouGEKRsNHb/Jyd6+0IQler+8HamKrMwFJ0=\n"
    "-----END EC PRIVATE KEY-----\n";

#define ED25519_HINT "7f2d9ed0b71b8e5a6c5cf30e647d6e20b5bca6dac8071f11abe3fef8014db610"
#define P256_HINT "4975c03dd2ad43f3803bf943ca231389c41f26352bf098c930568797eff44dcc"
#define P384_HINT "f72394c968f80f77f0039a5bd6a81aaa1e885753b4f9546ec16198cff0905a8b"
#define P521_HINT "0875dfb8b2f871078a12259be57a23aaa351aefa6636d1dc7a8a822581d8c952"

#endif
