package example

import future.keywords.if

x if input.user == "alex"

y if input.tokens > 100
