package example

x if input.user == "alex"

y if input.tokens > 100
